# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits: a small trained network whose checkpoint is an input of the build."""

from __future__ import annotations

import torch
from network import DigitNetwork

import delegatec


def build() -> delegatec.Model:
    """Returns the trained network, for one image."""
    return delegatec.Model(trained_network(), (torch.rand(1, 1, 8, 8),))


def build_batch() -> delegatec.Model:
    """Returns the trained network, for 1 to 64 images at once."""
    batch = torch.export.Dim("batch", min=1, max=64)
    return delegatec.Model(trained_network(), (torch.rand(8, 1, 8, 8),), dynamic_shapes=({0: batch},))


def trained_network() -> DigitNetwork:
    """The network with the weights that ``train.py`` found."""
    network = DigitNetwork()
    delegatec.load_checkpoint(network, "digits.safetensors")
    return network.eval()
