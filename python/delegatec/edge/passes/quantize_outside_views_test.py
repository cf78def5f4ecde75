# SPDX-License-Identifier: Apache-2.0
"""Quantization moves to the other side of views that merge and separate dynamic sizes; other calls stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor
from torch.export import Dim

from delegatec.edge.passes.quantize_outside_views import quantize_outside_views
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE
from delegatec.edge.testing import assert_computes, edge
from delegatec.edge.verifier import verify

aten = torch.ops.aten
_SIZES: Final = ({0: Dim("batch", min=2, max=9), 1: Dim("length", min=2, max=9)},)
_WEIGHT: Final = torch.arange(12.0).view(4, 3) / 8


def _quantized(x: Tensor, scale: float = 0.125) -> Tensor:
    parameters = (scale, 1, -128, 127, torch.int8)
    result: Tensor = DEQUANTIZE(QUANTIZE(x, *parameters), *parameters)
    return result


def _program(function: Callable[[Tensor], Any], sizes: Any = _SIZES) -> tuple[EdgeProgram, bool]:
    """Returns a program after the pass, which computes the same, and whether the pass changed it."""
    program = edge(function, torch.ones(3, 5, 4), dynamic_shapes=sizes, preserve=[QUANTIZE, DEQUANTIZE])
    changed = quantize_outside_views(program)
    verify(program)
    for batch, length in ((3, 5), (9, 2)) if sizes is _SIZES else ((3, 5),):
        x = torch.randn(batch, length, 4, generator=torch.Generator().manual_seed(0))
        assert_computes(program, function(x), x)
    return program, changed


def _order(program: EdgeProgram) -> list[str]:
    names = {QUANTIZE: "quantize", DEQUANTIZE: "dequantize", aten.view.default: "view", aten.mm.default: "mm"}
    return [names[node.target] for node in program.graph.nodes if node.target in names]


def test_rows_of_a_product() -> None:
    def function(x: Tensor) -> Tensor:
        rows = _quantized(x.view(-1, 4)) @ _WEIGHT
        return _quantized(rows).view(*x.shape[:2], 3)

    program, changed = _program(function)
    assert changed
    assert _order(program) == ["quantize", "dequantize", "view", "mm", "view", "quantize", "dequantize"]
    assert not quantize_outside_views(program)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: _quantized(x.view(-1, 4)).relu(),
        lambda x: x.view(-1, 4) @ _WEIGHT,
        lambda x: _quantized(x.view(-1, 4) @ _WEIGHT).relu(),
        lambda x: (
            DEQUANTIZE(
                QUANTIZE(x.view(-1, 4), 0.125, 1, -128, 127, torch.int8), 0.25, 1, -128, 127, torch.int8
            )
            @ _WEIGHT
        ),
    ],
)
def test_others_stay(function: Callable[[Tensor], Any]) -> None:
    assert not _program(function)[1]


@pytest.mark.parametrize("sizes", [None, ({0: Dim("batch", min=2, max=9)},)])
def test_one_dynamic_size(sizes: Any) -> None:
    changed = _program(lambda x: _quantized(x.view(-1, 4)) @ _WEIGHT, sizes)[1]
    assert not changed
