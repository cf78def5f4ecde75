# SPDX-License-Identifier: Apache-2.0
"""A keyword spotter: a second of sound to one of ten words. The checkpoint is that of `train.py`."""

from __future__ import annotations

import torch
from ds_cnn import KeywordNetwork
from speech import COEFFICIENTS, FRAMES

import delegatec


def build() -> delegatec.Model:
    """Returns the trained network, for one clip."""
    return delegatec.Model(trained_network(), (torch.rand(1, 1, FRAMES, COEFFICIENTS) * 2 - 1,))


def trained_network() -> KeywordNetwork:
    """Returns the network with the weights that `train.py` found."""
    network = KeywordNetwork()
    delegatec.load_checkpoint(network, "keywords.safetensors")
    return network.eval()
