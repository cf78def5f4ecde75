# SPDX-License-Identifier: Apache-2.0
"""Where the peer is wrong, ours is right, or does not delegate the operator, with a reason."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from delegatec.backends.mps.testing import compile_module
from tests.peer.blobs import peer_blobs
from tests.peer.defects import DEFECTS
from tests.peer.differential import RIGHT, compare
from tests.peer.differential_page import RECORD, defect_row
from tests.records.records import read

ROWS = read(RECORD)["defects"]
HELP = "run `bazel run //tests/peer:differential_page`, and check the changes"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", DEFECTS)
def test_right_where_the_peer_is_wrong(name: str) -> None:
    found = compare(DEFECTS[name].case(name))
    assert found is not None
    results = {precision: comparison.peer.result for precision, comparison in found.items()}
    assert set(results.values()) != {RIGHT}, "the peer is correct here: the bug is fixed"
    assert all(comparison.ours.result == RIGHT for comparison in found.values())
    assert any(comparison.ours.values for comparison in found.values())
    assert defect_row(DEFECTS[name].what, found) == ROWS[name], HELP


def test_the_record_has_no_other_defects() -> None:
    assert set(ROWS) == set(DEFECTS)


class Scaled(nn.Module):
    """A layer, and a scalar."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).pow(3)  # type: ignore[no-any-return]


def test_blobs_do_not_depend_on_earlier_ones() -> None:
    first, second = Scaled(8), Scaled(3)
    args = (torch.rand(2, 3),)
    alone = peer_blobs(second, args)
    peer_blobs(nn.Sequential(first, first), (torch.rand(2, 8),))
    assert peer_blobs(second, args, forget=False) != alone
    ours = compile_module(second, args).blobs()
    compile_module(nn.Sequential(first, first), (torch.rand(2, 8),))
    assert compile_module(second, args).blobs() == ours
