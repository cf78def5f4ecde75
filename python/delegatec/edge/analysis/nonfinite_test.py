# SPDX-License-Identifier: Apache-2.0
"""What eager mode computes as NaN or infinity from finite values is known to be possible."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.analysis.nonfinite import Special, Specials
from delegatec.edge.testing import Function, edge

# all pairs
_VALUES = torch.tensor([0.0, -0.0, 0.3, -0.3, 1.0, -1.0, 2.5, -2.5, 1e3, -1e3])
X, Y = torch.cartesian_prod(_VALUES, _VALUES).unbind(1)
BIAS = torch.tensor(-math.inf)
NAN = math.nan

Binary = Callable[[Tensor, Tensor], Tensor]

_UNARY = """
abs acos acosh asin asinh atan atanh ceil cos cosh erf exp exp2 expm1 floor log log10 log1p log2 logit neg
reciprocal relu round rsqrt sigmoid sin sinh sqrt tan tanh trunc
"""
_BINARY = "add sub mul div maximum minimum remainder fmod pow xlogy"


def _one(name: str) -> Binary:
    return lambda x, _: getattr(torch, name)(x)


def _two(name: str) -> Binary:
    return lambda x, y: getattr(torch, name)(x, y)


def _masked(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, -math.inf).view(10, 10)


FUNCTIONS: dict[str, Binary] = {
    **{name: _one(name) for name in _UNARY.split()},
    **{name: _two(name) for name in _BINARY.split()},
    "square root of a power": lambda x, y: (x * x + y).sqrt(),
    "power of a root": lambda x, y: x**0.5,
    "inverse": lambda x, y: x**-2,
    "scalar first": lambda x, y: 1.0 - x.exp(),
    "difference of infinities": lambda x, y: x.exp() - y.exp(),
    "infinity times zero": lambda x, y: x.exp() * y,
    "ratio of infinities": lambda x, y: x.exp() / y.exp(),
    "sine of infinity": lambda x, y: (1 / x).sin(),
    "quotient": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "moved": lambda x, y: torch.cat([x.log(), y]).view(2, -1).flip(0),
    "selected": lambda x, y: torch.where(x > 0, x, y.log()),
    "logit with eps": lambda x, y: x.logit(1e-3),
    "infinity above a bound": lambda x, y: (1 / x.abs()).clamp(min=0).sin(),
    "infinity below a bound": lambda x, y: x.abs().log().clamp(max=0).exp() * x.abs().log().clamp(max=0),
    "gelu of minus infinity": lambda x, y: torch.nn.functional.gelu(x.abs().log()),
    "silu of minus infinity": lambda x, y: torch.nn.functional.silu(x.abs().log()),
    "softmax of a masked row": lambda x, y: _masked(x).softmax(-1),
    "logarithm of that": lambda x, y: _masked(x).log_softmax(-1),
    "logarithm of a partly masked row": lambda x, y: _masked(y).log_softmax(-1),
}


# Layers and reductions are taken to be finite.
WITHOUT_NAN: list[Binary] = [
    lambda x, y: x + y * x - 3,
    lambda x, y: x / (y.abs() + 1),
    lambda x, y: (x.abs() + 0.1).log(),
    lambda x, y: x.relu().sqrt(),
    lambda x, y: (x.abs() + 1e-3).rsqrt(),
    lambda x, y: x.clamp(-1, 1).acos(),
    lambda x, y: x.exp() * 2.0 + y.exp(),
    lambda x, y: x.exp().log1p(),
    lambda x, y: x.view(10, 10).softmax(-1).log(),
    lambda x, y: x.exp().clamp(1, 9) * y,
    lambda x, y: x.logit(1e-3),
    lambda x, y: (x - y) * ((x - y).pow(2).mean() + 1e-5).rsqrt(),
    lambda x, y: (
        (x - y) / ((x * x).view(10, 10).mean(1, keepdim=True) + 1e-5).sqrt().expand(10, 10).flatten()
    ),
    lambda x, y: x / (x.var() + 1e-5).sqrt() + y / (x.norm() + 1e-6),
    lambda x, y: x / ((y > 0).float().sum() + 1e-6),
    lambda x, y: torch.nn.functional.normalize(x, dim=0),
    lambda x, y: torch.where(x > 0, x, -math.inf) * 0.5 + torch.where(y > 0, x, -math.inf),
    lambda x, y: (x @ y).exp() + x.sqrt().sum(),
]


def _specials(functions: Sequence[Callable[..., Tensor]], *inputs: Tensor) -> list[Special]:
    program = edge(Function(lambda *args: [each(*args) for each in functions]), *inputs, passes=())
    results: Any = program.output_node().args[0]
    specials = Specials(Facts(program.fixed_constants()))
    return [specials.of(each) for each in results]


def test_what_occurs_is_possible() -> None:
    for name, possible in zip(FUNCTIONS, _specials([*FUNCTIONS.values()], X, Y), strict=True):
        found = FUNCTIONS[name](X, Y)
        assert possible.nan >= bool(found.isnan().any()), name
        assert possible.high >= bool((found == math.inf).any()), name
        assert possible.low >= bool((found == -math.inf).any()), name


def test_no_nan() -> None:
    assert [index for index, each in enumerate(_specials(WITHOUT_NAN, X, Y)) if each.nan] == []


def test_constants() -> None:
    plus, minus, times, selected = _specials(
        [lambda x: x + BIAS, lambda x: x - BIAS, lambda x: x * BIAS, lambda x: torch.where(x > 0, x, NAN)], X
    )
    assert plus == Special(low=True) and minus == Special(high=True)
    assert times.nan and selected.nan
