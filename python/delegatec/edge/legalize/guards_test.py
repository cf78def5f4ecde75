# SPDX-License-Identifier: Apache-2.0
"""Tests of what is known of symbolic sizes."""

from __future__ import annotations

import io

import pytest
import torch
from torch.export import Dim

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.builder import Builder
from delegatec.edge.convert import to_edge
from delegatec.edge.legalize.guards import NEEDS_VALUE, no_new_guards
from delegatec.edge.symbols import UnknownSizeError, smallest
from delegatec.edge.testing import edge, export


@pytest.mark.parametrize("least", [0, 1, 2, 3])
@pytest.mark.parametrize("is_read", [False, True])
def test_lower_bounds_are_those_of_dynamic_shapes(least: int, is_read: bool) -> None:
    """In the process that exports, torch's environment starts at 2: rows excluded sizes of 1 there only."""
    program = export(torch.relu, torch.ones(4, 2), dynamic_shapes=({0: Dim("rows", min=least, max=8)},))
    if is_read:
        file = io.BytesIO()
        torch.export.save(program, file)
        program = torch.export.load(io.BytesIO(file.getvalue()))
    rows, _ = to_edge(program).placeholders()[0].meta["val"].shape
    assert smallest(rows) == least


def test_values_of_symbols_that_are_no_size() -> None:
    """A `.pt2` has the example's value of 2 * s, and none of s."""
    rows = Dim("rows", min=1, max=4)
    exported = export(torch.relu, torch.ones(6, 2), dynamic_shapes=({0: 2 * rows},))
    file = io.BytesIO()
    torch.export.save(exported, file)
    exported = torch.export.load(io.BytesIO(file.getvalue()))
    program = to_edge(exported)
    twice, _ = program.placeholders()[0].meta["val"].shape
    (symbol,) = twice.node.expr.free_symbols
    assert twice.node.shape_env.backed_var_to_val[symbol] == 3
    with no_new_guards(Builder(program, Facts({}))), pytest.raises(NEEDS_VALUE):
        bool((twice // 2) % 2)


def test_constants_are_not_computed_from_dynamic_sizes() -> None:
    """torch multiplies a tensor with 7777777 instead of a symbolic scalar."""
    program = edge(torch.relu, torch.ones(4, 2), dynamic_shapes=({0: Dim("rows", min=1, max=8)},))
    rows, _ = program.placeholders()[0].meta["val"].shape
    with no_new_guards(Builder(program, Facts({}))), pytest.raises(UnknownSizeError, match="a dynamic size"):
        torch.arange(3) * rows
