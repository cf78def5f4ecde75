# SPDX-License-Identifier: Apache-2.0
"""The network that reads handwritten digits: shared by ``train.py`` and ``digits.py``."""

from __future__ import annotations

import torch
from torch import nn


class DigitNetwork(nn.Module):
    """A convolutional network for 8 x 8 images of one digit."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 24, kernel_size=3, padding=1),
            nn.BatchNorm2d(24),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Linear(24 * 2 * 2, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Classifies images.

        Args:
            pixels: float32 ``[batch, 1, 8, 8]``, 0 (paper) to 1 (ink).

        Returns:
            float32 logits ``[batch, 10]``, one for each digit.
        """
        return self.classifier(self.features(pixels).flatten(1))
