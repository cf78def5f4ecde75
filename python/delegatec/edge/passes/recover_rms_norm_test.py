# SPDX-License-Identifier: Apache-2.0
"""Norms as models write them are `aten.rms_norm`; similar arithmetic stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from delegatec.edge import print_program
from delegatec.edge.convert import SIMPLIFY
from delegatec.edge.passes.recover_rms_norm import recover_rms_norm
from delegatec.edge.testing import assert_computes, called, edge

aten = torch.ops.aten
rms_norm = aten.rms_norm.default
X = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0))
W = torch.randn(8, generator=torch.Generator().manual_seed(1))


def _variance(x: torch.Tensor) -> torch.Tensor:
    return x.pow(2).mean(-1, keepdim=True)


def _llama(x: torch.Tensor) -> torch.Tensor:
    wide = x.to(torch.float32)
    return W.to(x.dtype) * (wide * torch.rsqrt(_variance(wide) + 1e-6)).to(x.dtype)


def _gemma(x: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    return ((wide * torch.rsqrt(_variance(wide) + 1e-6)) * (1.0 + W.float())).type_as(x)


WITH_WEIGHT = {
    "Llama": _llama,
    "Gemma": _gemma,
    "product of itself": lambda x: x * torch.rsqrt((x * x).mean(2, keepdim=True) + 1e-5) * W,
    "root": lambda x: x / torch.sqrt(_variance(x) + 1e-5) * W,
    "reciprocal": lambda x: W * (x * (1.0 / torch.sqrt(1e-5 + _variance(x)))),
    "power": lambda x: x * torch.pow(_variance(x) + 1e-5, -0.5) * W,
    "default epsilon": lambda x: torch.nn.functional.rms_norm(x, (8,), W),
    "weight with more dimensions": lambda x: x * torch.rsqrt(_variance(x) + 1e-6) * W.view(1, 1, 8),
}
WITHOUT_WEIGHT = {
    "no weight": lambda x: x * torch.rsqrt(_variance(x) + 1e-5),
    "variable weight": lambda x: x * torch.rsqrt(_variance(x) + 1e-5) * x[0],
    "one number": lambda x: x * torch.rsqrt(_variance(x) + 1e-5) * W[:1],
    "several users": lambda x: (lambda y: y * W + y)(x * torch.rsqrt(_variance(x) + 1e-5)),
    "centered": lambda x: (lambda y: y * torch.rsqrt(_variance(y) + 1e-5))(x - x.mean(-1, keepdim=True)),
}
OTHERS = {
    "another operand": lambda x: (x + 1) * torch.rsqrt(_variance(x) + 1e-5),
    "another dimension": lambda x: x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-5),
    "third power": lambda x: x * torch.rsqrt(x.abs().pow(3).mean(-1, keepdim=True) + 1e-5),
    "times the root": lambda x: x * torch.sqrt(_variance(x) + 1e-5),
    "no epsilon": lambda x: x * torch.rsqrt(_variance(x)),
    "variable epsilon": lambda x: x * torch.rsqrt(_variance(x) + x[:1, :1, :1].abs()),
}


def _norms(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> list[bool]:
    """Returns whether each norm of the recovered program has a weight."""
    program = edge(function, x, passes=(*SIMPLIFY, recover_rms_norm), preserve=[rms_norm])
    assert_computes(program, function(x), x)
    norms = [node for node in program.graph.nodes if node.target is rms_norm]
    assert not norms or aten.rsqrt.default not in called(program), print_program(program)
    return [node.args[2] is not None for node in norms]


@pytest.mark.parametrize("function", WITH_WEIGHT.values(), ids=WITH_WEIGHT)
def test_with_weight(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert _norms(function, X) == [True]


@pytest.mark.parametrize("function", WITHOUT_WEIGHT.values(), ids=WITHOUT_WEIGHT)
def test_without_weight(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert _norms(function, X) == [False]


@pytest.mark.parametrize("function", OTHERS.values(), ids=OTHERS)
def test_others(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert _norms(function, X) == []


def test_half_precision() -> None:
    program = edge(_llama, X.half(), passes=(*SIMPLIFY, recover_rms_norm), preserve=[rms_norm])
    assert called(program) == [rms_norm]
