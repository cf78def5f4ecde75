# SPDX-License-Identifier: Apache-2.0
"""A network behind a high-pass filter that the app has a kernel for."""

from __future__ import annotations

import torch
from torch import nn

import delegatec
from examples.custom_kernels.operators import biquad


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv1d(1, 8, 9, stride=4), nn.ReLU(), nn.Conv1d(8, 8, 9, stride=4))
        self.scores = nn.Linear(8, 2)

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        # A Butterworth filter: 100 Hz at 16 kHz.
        high = biquad(signal, 0.9726, -1.9452, 0.9726, -1.9445, 0.9460)
        return self.scores(torch.relu(self.features(high)).mean(-1))


def build() -> delegatec.Model:
    return delegatec.Model(Detector().eval(), (torch.randn(1, 1, 400),))
