# SPDX-License-Identifier: Apache-2.0
"""The images: 1797 handwritten digits of 8 x 8 pixels from scikit-learn, in two fixed parts."""

from __future__ import annotations

from typing import NamedTuple

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


class Pictures(NamedTuple):
    """Images and their labels."""

    pixels: torch.Tensor
    """float32 ``[count, 1, 8, 8]``, 0 (paper) to 1 (ink)."""
    digits: torch.Tensor
    """int64 ``[count]``, 0 to 9."""


def load_split() -> tuple[Pictures, Pictures]:
    """Returns the 1347 images to train on and the 450 to test on."""
    pixels, digits = load_digits(return_X_y=True)
    train_pixels, test_pixels, train_digits, test_digits = train_test_split(
        pixels, digits, test_size=0.25, random_state=0, stratify=digits
    )
    return _pictures(train_pixels, train_digits), _pictures(test_pixels, test_digits)


def _pictures(pixels, digits) -> Pictures:
    scaled = torch.tensor(pixels / 16.0, dtype=torch.float32)
    return Pictures(scaled.reshape(-1, 1, 8, 8), torch.tensor(digits, dtype=torch.int64))
