# SPDX-License-Identifier: Apache-2.0
"""An embedding gathers the rows of a quantized table before they are dequantized."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from delegatec.edge.passes.eliminate_dead_code import eliminate_dead_code
from delegatec.edge.passes.fold_constants import fold_constants
from delegatec.edge.passes.gather_rows_first import gather_rows_first
from delegatec.edge.passes.remove_identities import remove_identities
from delegatec.edge.printer import print_program
from delegatec.edge.quantization.operators import DEQUANTIZE_BLOCKS
from delegatec.edge.testing import assert_computes, edge

quantized = torch.ops.quantized_decomposed
embedding = torch.nn.functional.embedding
TABLE = torch.arange(-96, 96, dtype=torch.int8).view(24, 8)
SCALES = torch.rand(24, 2) + 0.5
IDS = torch.tensor([[3, 0, 23], [3, 7, 1]])
PASSES = (remove_identities, fold_constants, gather_rows_first, eliminate_dead_code)
INT8 = (-128, 127, torch.int8)


def _groups() -> Tensor:
    result: Tensor = quantized.dequantize_per_channel_group(TABLE, SCALES, None, *INT8, 4, torch.float32)
    return result


TABLES: dict[str, Callable[[], Tensor]] = {
    "groups": _groups,
    "rows": lambda: quantized.dequantize_per_channel(TABLE, SCALES[:, 0], None, 0, *INT8),
    "arithmetic": lambda: (TABLE.float() - 3) * SCALES[:, :1],
    "a scale per column": lambda: TABLE.float() * SCALES.flatten()[:8],
    "bits": lambda: (TABLE.view(torch.uint8).bitwise_right_shift(4).float() - 8) * SCALES[:, 1:],
}

_PRESERVED = [DEQUANTIZE_BLOCKS]


@pytest.mark.parametrize("is_preserved", [False, True])
@pytest.mark.parametrize("name", TABLES)
def test_only_gathered_rows_are_computed(name: str, is_preserved: bool) -> None:
    def function(ids: Tensor) -> Tensor:
        return embedding(ids, TABLES[name]()) + 1

    program = edge(function, IDS, passes=PASSES, preserve=_PRESERVED if is_preserved else ())
    assert_computes(program, function(IDS), IDS)
    text = print_program(program)
    # in the part after the constants, no table has 24 rows
    assert "index_select" in text and "aten.embedding" not in text
    assert not any("[24, " in line.partition("=")[0] for line in text.splitlines() if "aten." in line)


@pytest.mark.parametrize("is_preserved", [False, True])
@pytest.mark.parametrize("name", TABLES)
def test_a_dynamic_number_of_rows(name: str, is_preserved: bool) -> None:
    def function(ids: Tensor) -> Tensor:
        return embedding(ids, TABLES[name]()) + 1

    shapes = ({1: torch.export.Dim("length", max=64)},)
    preserve = _PRESERVED if is_preserved else ()
    program = edge(function, IDS, passes=PASSES, dynamic_shapes=shapes, preserve=preserve)
    assert_computes(program, function(IDS), IDS)
    assert_computes(program, function(IDS[:, :1]), IDS[:, :1])
    assert "index_select" in print_program(program)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda ids: embedding(ids.repeat(4, 1), _groups()), id="more rows than the table has"),
        pytest.param(lambda ids: embedding(ids, TABLE.float().cumsum(0)), id="rows of other rows"),
        pytest.param(lambda ids: embedding(ids, TABLE.float() * ids.sum()), id="not constant"),
        pytest.param(lambda ids: embedding(ids, SCALES), id="no arithmetic"),
    ],
)
def test_other_tables_stay(function: Callable[[Tensor], Tensor]) -> None:
    program = edge(function, IDS, passes=PASSES)
    assert_computes(program, function(IDS), IDS)
    assert "aten.embedding" in print_program(program)
