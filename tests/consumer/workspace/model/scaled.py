# SPDX-License-Identifier: Apache-2.0
"""A network with layers from two wheels of the consumer's."""

from __future__ import annotations

import torch
from team_layers.scale import Scale
from team_shifts import Shift

import delegatec


def build() -> delegatec.Model:
    """A linear layer, scaled and shifted."""
    network = torch.nn.Sequential(torch.nn.Linear(4, 4), Scale(3.0), Shift(0.5))
    return delegatec.Model(network.eval(), (torch.rand(2, 4),))
