# SPDX-License-Identifier: Apache-2.0
"""A model of what a C++ class must get right: shared state, channels-last images, several results."""

from __future__ import annotations

import torch

import delegatec


class Counter(torch.nn.Module):
    """Sums the means of images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 1)
        torch.nn.init.constant_(self.conv.weight, 1.0)
        torch.nn.init.zeros_(self.conv.bias)
        self.register_buffer("total", torch.zeros(4))

    def forward(self, image: torch.Tensor, weights: torch.Tensor, new: float) -> dict[str, object]:
        """Adds the means of some images, each with a weight."""
        means = (self.conv(image) * weights[:, None, None, None]).mean((0, 2, 3)) * new
        self.total.add_(means)
        return {"total": self.total * 1, "class": None, "images": image.shape[0]}

    def take(self, cache: torch.Tensor) -> torch.Tensor:
        """Adds the sum to a cache, and returns twice its value."""
        cache.add_(self.total)
        return cache * 2


def build() -> delegatec.Model:
    """Returns the model, for 1 to 4 images."""
    images = torch.rand(2, 3, 8, 8).to(memory_format=torch.channels_last)
    batch = torch.export.Dim("batch", min=1, max=4)
    return delegatec.Model(
        Counter().eval(),
        (images, torch.rand(2), 0.5),
        dynamic_shapes={"image": {0: batch}, "weights": {0: batch}, "new": None},
        methods={"take": delegatec.Method("take", (torch.zeros(4),))},
    )
