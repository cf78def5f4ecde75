# SPDX-License-Identifier: Apache-2.0
"""MobileNetV2 for 224 x 224 images and 1000 classes, from its configuration.

The weights are random, drawn from the build's seed: the example shows compilation, not recognition.
"""

from __future__ import annotations

import torch
from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

import delegatec


class Classifier(torch.nn.Module):
    """Pixels to logits: the transformers model without the dictionary around its output."""

    def __init__(self, network: MobileNetV2ForImageClassification) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Classifies images.

        Args:
            pixel_values: float32 ``[batch, 3, 224, 224]``, in the range -1 to 1.

        Returns:
            float32 logits ``[batch, 1000]``.
        """
        return self.network(pixel_values=pixel_values).logits


def build() -> delegatec.Model:
    """Returns the network for one image."""
    network = MobileNetV2ForImageClassification(MobileNetV2Config(num_labels=1000))
    for module in network.modules():
        if isinstance(module, torch.nn.Conv2d):
            # transformers' own initial weights let the signal fade to 1e-21 on its way through 52 layers
            torch.nn.init.kaiming_normal_(module.weight)
    return delegatec.Model(Classifier(network).eval(), (torch.rand(1, 3, 224, 224) * 2 - 1,))
