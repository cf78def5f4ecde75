# SPDX-License-Identifier: Apache-2.0
"""Calibration samples of MobileNetV2: random images, as its weights are random."""

from __future__ import annotations

from collections.abc import Iterator

import torch


def build() -> Iterator[torch.Tensor]:
    """Returns two images."""
    for _ in range(2):
        yield torch.rand(1, 3, 224, 224) * 2 - 1
