# SPDX-License-Identifier: Apache-2.0
"""A keyword spotter of depthwise separable convolutions (DS-CNN): shared by `train.py` and `keywords.py`."""

from __future__ import annotations

import torch
from torch import nn

CHANNELS = 48
BLOCKS = 4


class KeywordNetwork(nn.Module):
    """Mel cepstra of one second to one logit per word."""

    def __init__(self, words: int = 10) -> None:
        super().__init__()
        layers = _layer(nn.Conv2d(1, CHANNELS, (10, 4), stride=2, padding=(5, 1), bias=False))
        for _ in range(BLOCKS):
            depthwise = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, groups=CHANNELS, bias=False)
            layers += _layer(depthwise) + _layer(nn.Conv2d(CHANNELS, CHANNELS, 1, bias=False))
        self.features = nn.Sequential(*layers)
        self.pool, self.dropout = nn.AdaptiveAvgPool2d(1), nn.Dropout(0.2)
        self.classifier = nn.Linear(CHANNELS, words)

    def forward(self, cepstra: torch.Tensor) -> torch.Tensor:
        """Classifies clips.

        Args:
            cepstra: float32 `[batch, 1, 49, 10]`, about -1 to 1.

        Returns:
            float32 logits `[batch, words]`.
        """
        return self.classifier(self.dropout(self.pool(self.features(cepstra)).flatten(1)))


def _layer(convolution: nn.Conv2d) -> list[nn.Module]:
    return [convolution, nn.BatchNorm2d(convolution.out_channels), nn.ReLU()]
