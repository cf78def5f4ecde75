# SPDX-License-Identifier: Apache-2.0
"""The layout of networks: as few permutations as possible, and the same results."""

from __future__ import annotations

import pytest
import torch

from delegatec.edge.channels_last.networks import NETWORKS
from delegatec.edge.channels_last.optimize import optimize_layout
from delegatec.edge.channels_last.testing import channels_last, permutations
from delegatec.edge.testing import assert_computes
from delegatec.edge.verifier import verify


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str, batch: int) -> None:
    torch.manual_seed(0)
    network, inputs, count = NETWORKS[name]
    model, x = network().eval(), inputs()[:batch]
    program = channels_last(model, x)
    assert optimize_layout(program)
    verify(program)
    assert_computes(program, model(x), x, atol=1e-4, rtol=1e-4)
    assert permutations(program) <= count
    assert not optimize_layout(program)
