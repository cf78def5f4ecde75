# SPDX-License-Identifier: Apache-2.0
"""Numbers and 0-d operands have the dtype of the computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from delegatec.edge.testing import assert_computes, called, edge

CAST = torch.ops.aten._to_copy.default
HALVES = torch.tensor([0.1, 0.5, -1.5]).half()
INTEGERS = {
    torch.uint8: (torch.tensor([7, 5, 200, 0, 254], dtype=torch.uint8), (-2, 300, 1000, -300)),
    torch.int8: (torch.tensor([7, -100, 127, 0, -1], dtype=torch.int8), (130, -130, 263)),
    torch.int16: (torch.tensor([7, 32000, -1], dtype=torch.int16), (40000, 70000)),
    torch.int32: (torch.tensor([7, 3, 2**31 - 1, -1], dtype=torch.int32), (2**33 + 3,)),
}
DIVISIONS: dict[str, Callable[[Any, Any], Tensor]] = {
    "floor_divide": lambda x, y: x // y,
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "fraction": lambda x, y: x / y,
    "remainder": lambda x, y: x % y,
    "fmod": torch.fmod,
}
WRAPPING: dict[str, Callable[[Any, Any], Tensor]] = {
    **{name: getattr(torch, name) for name in ("eq", "ne", "lt", "le", "gt", "ge", "greater", "less_equal")},
    **DIVISIONS,
    "add": lambda x, y: x + y,
    "rsub": lambda x, y: y - x,
    "mul": lambda x, y: x * y,
    "and": lambda x, y: x & y,
    "xor": lambda x, y: x ^ y,
    "shift": lambda x, y: x << y,
}
OF_NUMBERS: dict[str, Callable[[Any, Any], Tensor]] = {
    "remainder_of_a_number": lambda x, y: torch.remainder(y, x.clamp(1, 50)),
    "power_of_a_number": lambda x, y: torch.pow(y, x.clamp(0, 2)),
    "is_a_number_in": lambda x, y: torch.isin(y, x),
}
OF_BYTES: dict[str, Callable[[Any, Any], Tensor]] = {
    "clamp": lambda x, y: x.clamp(y),
    "alpha": lambda x, y: torch.add(x, x, alpha=y),
    "masked_fill": lambda x, y: x.masked_fill(x > 6, y),
    "full": torch.full_like,
    "where": lambda x, y: torch.where(x > 6, x, y),
    "scatter": lambda x, y: x.scatter(0, torch.tensor([0]), y),
    "threshold": lambda x, y: torch.nn.functional.threshold(x, y, y),
}
OF_TENSORS: dict[str, Callable[[Any, Any], Tensor]] = {
    "clamp_to_tensors": lambda x, y: torch.clamp(x, torch.tensor(1), y),
    "minimum": torch.minimum,
    "isin": lambda x, y: torch.isin(y, x),
    "max": torch.max,
}


def all_of(functions: dict[str, Callable[[Any, Any], Tensor]], y: Any) -> Callable[[Tensor], list[Tensor]]:
    return lambda x: [function(x, y) for function in functions.values()]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_number_beyond_the_dtype_wraps_around(dtype: torch.dtype) -> None:
    x, integers = INTEGERS[dtype]
    for number in integers:
        function = all_of({**WRAPPING, **OF_NUMBERS}, number)
        program = edge(function, x)
        info = torch.iinfo(dtype)
        for node in program.graph.nodes:
            if node.target is not torch.ops.aten.div.Scalar:
                assert all(info.min <= each <= info.max for each in node.args if type(each) is int), node
        assert_computes(program, function(x), x)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_0d_tensor_beyond_the_dtype_wraps_around(dtype: torch.dtype) -> None:
    x, integers = INTEGERS[dtype]
    function = all_of({**WRAPPING, **OF_TENSORS}, torch.tensor(integers[0]))
    assert_computes(edge(function, x), function(x), x)
    program = edge(torch.greater, x, torch.tensor(integers[0]))
    assert called(program) == [CAST, torch.ops.aten.gt.Tensor]


@pytest.mark.parametrize("name", OF_BYTES)
def test_a_negative_number_in_bytes_wraps_around(name: str) -> None:
    x, function = INTEGERS[torch.uint8][0], all_of({name: OF_BYTES[name]}, -2)
    program = edge(function, x)
    assert not any(-2 in (*node.args, *node.kwargs.values()) for node in program.graph.nodes)
    assert_computes(program, function(x), x)


def test_numbers_of_wider_computations_stay() -> None:
    x = torch.tensor([7, 100], dtype=torch.int8)
    for function in (lambda x: x / 300, lambda x: x.float() * 300, lambda x: (x > 8) * 300):
        program = edge(function, x)
        assert any(300 in node.args for node in program.graph.nodes)
        assert_computes(program, function(x), x)


@pytest.mark.parametrize(
    "function",
    [torch.eq, torch.sub, torch.fmod, lambda x, y: torch.where(x > 0, x, y), lambda x, y: y >= x],
    ids=("eq", "sub", "fmod", "where", "ge"),
)
def test_a_scalar_of_the_same_category_is_converted(function: Callable[..., Any]) -> None:
    for x, y in ((HALVES, torch.tensor(0.1)), (torch.tensor([44, 3]).to(torch.uint8), torch.tensor(300))):
        program = edge(function, x, y)
        assert called(program).count(CAST) == 1
        assert_computes(program, function(x, y), x, y)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (HALVES, torch.tensor(3)),
        (torch.tensor([1, 2]), torch.tensor(0.5)),
        (HALVES, torch.tensor([0.1])),
        (HALVES[0], torch.tensor(0.1)),
        (HALVES.float(), HALVES[0]),
    ],
    ids=("lower_category", "higher_category", "vector", "two_scalars", "narrower"),
)
def test_other_operands_stay(x: Tensor, y: Tensor) -> None:
    program = edge(torch.eq, x, y)
    assert CAST not in called(program)
    assert_computes(program, x == y, x, y)
