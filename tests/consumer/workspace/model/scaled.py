# SPDX-License-Identifier: Apache-2.0
"""A network with a layer from a wheel of the consumer's."""

from __future__ import annotations

import torch
from team_layers.scale import Scale

import delegatec


def build() -> delegatec.Model:
    """A linear layer, scaled."""
    network = torch.nn.Sequential(torch.nn.Linear(4, 4), Scale(3.0))
    return delegatec.Model(network.eval(), (torch.rand(2, 4),))
