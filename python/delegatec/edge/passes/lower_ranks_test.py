# SPDX-License-Identifier: Apache-2.0
"""Values of many dimensions become values of few, with the same elements."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim

from delegatec.edge import EdgeProgram, print_program
from delegatec.edge.passes.lower_ranks import lower_ranks
from delegatec.edge.passes.pass_manager import run_passes
from delegatec.edge.testing import Function, assert_computes, called, edge
from delegatec.edge.verifier import verify

aten = torch.ops.aten
VOLUME = torch.arange(2 * 4 * 4 * 6 * 3.0).view(2, 4, 4, 6, 3) / 7 - 9


def windows(x: Tensor) -> Tensor:
    """Windows of 2 x 2 x 2 of [batch, depth, height, width, channels]."""
    b, d, h, w, c = x.shape
    x = x.view(b, d // 2, 2, h // 2, 2, w // 2, 2, c)
    return x.permute(0, 1, 3, 5, 2, 4, 6, 7).reshape(-1, 8, c)


def volume(x: Tensor, b: int, d: int, h: int, w: int) -> Tensor:
    """The inverse of `windows`."""
    x = x.view(b, d // 2, h // 2, w // 2, 2, 2, 2, x.shape[-1])
    return x.permute(0, 1, 4, 2, 5, 3, 6, 7).reshape(b, d, h, w, -1)


def lowered(most: int, program: EdgeProgram) -> EdgeProgram:
    run_passes(program, [partial(lower_ranks, most=most)])
    verify(program)
    return program


def highest(program: EdgeProgram) -> int:
    """Returns the most dimensions that a call computes."""
    values = [node.meta.get("val") for node in program.graph.nodes if node.op == "call_function"]
    return max(value.dim() for value in values if isinstance(value, Tensor))


def quantized(x: Tensor) -> Tensor:
    scale = (0.1, 3, -128, 127, torch.int8)
    quantized_values = torch.ops.quantized_decomposed.quantize_per_tensor(x, *scale)
    found: Tensor = torch.ops.quantized_decomposed.dequantize_per_tensor(quantized_values, *scale)
    return found


def _dequantized(x: Tensor) -> Tensor:
    b, d, h, w, c = x.shape
    x = quantized(x.view(b, d // 2, 2, h // 2, 2, w // 2, 2, c))
    return quantized(x.permute(0, 1, 3, 5, 2, 4, 6, 7)).reshape(-1, 8, c) + 1


def _seven(x: Tensor) -> Tensor:
    return x.view(2, 2, 2, 4, 3, 2, 3)


CASES: dict[str, Callable[[Tensor], Any]] = {
    "windows of volumes": lambda x: volume(windows(x).relu(), *x.shape[:4]) + 1,
    "their quantized values": _dequantized,
    "dimensions of size 1": lambda x: (
        x.view(2, 1, 4, 1, 4, 6, 3).permute(0, 4, 3, 1, 5, 6, 2).exp().reshape(2, -1)
    ),
    "the reverse": lambda x: _seven(x).permute(6, 5, 4, 3, 2, 1, 0).reshape(3, -1).exp(),
    "neighbors only": lambda x: _seven(x).permute(3, 4, 5, 6, 0, 1, 2).reshape(72, 8).exp(),
    "a sum that broadcasts": lambda x: (_seven(x) + _seven(x)[:, :1]).view(2, -1).exp(),
    "a sum with few dimensions": lambda x: (_seven(x) * x[0, 0, 0, 0]).view(2, -1).exp(),
    "copies": lambda x: x.view(2, 2, 1, 2, 4, 6, 3).expand(2, 2, 5, 2, 4, 6, 3).sin().sum(2).view(2, -1),
    "a range": lambda x: _seven(x)[:, :, :, 1:3].cos().reshape(2, -1),
    "an index": lambda x: _seven(x)[:, :, 1].cos().view(2, -1),
    "a row of a softmax": lambda x: _seven(x).softmax(3).view(4, -1),
    "concatenation": lambda x: torch.cat([_seven(x), _seven(x).neg()], 4).view(2, -1),
    "reductions": lambda x: (_seven(x).amax((1, 2)), _seven(x).mean((3, 6), keepdim=True).view(-1)),
    "several users": lambda x: (lambda y: (y.reshape(-1), y.sin().reshape(2, -1)))(windows(x) * 2),
}


@pytest.mark.parametrize("most", [4, 5, 6])
@pytest.mark.parametrize("name", CASES)
def test_few_dimensions(name: str, most: int) -> None:
    function = CASES[name]
    program = lowered(most, edge(function, VOLUME, preserve=frozenset({aten._softmax.default})))
    assert_computes(program, function(VOLUME), VOLUME)
    # the input has five
    assert highest(program) <= max(most, 5)


def test_the_program() -> None:
    text = print_program(lowered(6, edge(windows, VOLUME)))
    lines = [line.partition("  #")[0].strip() for line in text.splitlines()]
    assert lines[1:-1] == [
        "%1: f32[4, 2, 2, 2, 3, 6] = aten.view.default(%args_0, [4, 2, 2, 2, 3, 6])",
        "%2: f32[4, 2, 3, 2, 2, 6] = aten.permute.default(%1, [0, 2, 4, 1, 3, 5])",
        "%3: f32[24, 8, 3] = aten.view.default(%2, [24, 8, 3])",
    ]
    steps = called(lowered(4, edge(windows, VOLUME)))
    assert steps == [aten.view.default, aten.permute.default] * 2 + [aten.view.default]


def test_other_operators_read_all_dimensions() -> None:
    def function(x: Tensor) -> Tensor:
        return _seven(x).permute(6, 5, 4, 3, 2, 1, 0).cumsum(3).relu().reshape(2, -1)

    program = lowered(6, edge(function, VOLUME))
    assert highest(program) == 7 and aten.cumsum.default in called(program)
    assert_computes(program, function(VOLUME), VOLUME)


def test_programs_of_few_dimensions_stay() -> None:
    program = edge(CASES["windows of volumes"], VOLUME)
    before = print_program(program)
    assert print_program(lowered(8, program)) == before


@pytest.mark.parametrize("most", [4, 6])
def test_the_batch_may_vary(most: int) -> None:
    model = Function(lambda self, x: volume(windows(x).relu(), x.shape[0], *x.shape[1:4]), unused=VOLUME)
    batch = (({0: Dim("batch", min=1, max=9)},),)
    program = lowered(most, edge(model, VOLUME, dynamic_shapes=batch))
    assert highest(program) <= max(most, 5)
    for size in (1, 3):
        x = torch.randn(size, *VOLUME.shape[1:])
        assert_computes(program, model(x), x)


@pytest.mark.parametrize("most", [4, 6])
def test_all_sizes_may_vary(most: int) -> None:
    model = Function(lambda self, x: windows(x).relu(), unused=VOLUME)
    sizes = [2 * Dim(f"half_{name}", min=2, max=9) for name in "dhw"]
    program = lowered(most, edge(model, VOLUME, dynamic_shapes=(({1: sizes[0], 2: sizes[1], 3: sizes[2]},),)))
    assert highest(program) <= max(most, 5)
    for shape in ((2, 4, 6, 8, 3), (2, 8, 4, 10, 3)):
        x = torch.randn(shape)
        assert_computes(program, model(x), x)
