# SPDX-License-Identifier: Apache-2.0
"""A network, of which the demo backend supports a part."""

from __future__ import annotations

import torch

import delegatec


class Network(torch.nn.Module):
    """Float32 [1, 3, 16, 16] to [1, 8, 6, 6]."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.second = torch.nn.Conv2d(8, 8, 3, stride=2, groups=2, bias=False)
        self.last = torch.nn.Conv2d(8, 8, 2)

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        """Convolves twice, computes the tangent, and convolves again without relu."""
        hidden = torch.relu(self.first(picture))
        hidden = torch.relu(self.second(hidden))
        return self.last(torch.tan(hidden))


def build() -> delegatec.Model:
    """Returns the network, with random weights from the seed."""
    return delegatec.Model(Network().eval(), (torch.rand(1, 3, 16, 16),))
