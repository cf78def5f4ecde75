# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits: a small trained network whose checkpoint is an input of the build."""

from __future__ import annotations

import torch

import delegatec
from network import DigitNetwork


def build() -> delegatec.Model:
    """Returns the trained network, for one picture."""
    network = DigitNetwork()
    delegatec.load_checkpoint(network, "digits.safetensors")
    return delegatec.Model(network.eval(), (torch.rand(1, 1, 8, 8),))
