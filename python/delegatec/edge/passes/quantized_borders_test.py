# SPDX-License-Identifier: Apache-2.0
"""Quantized values at the boundaries of control flow: the values do not change, and integers cross."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops import while_loop

from delegatec.edge import to_edge
from delegatec.edge.control_flow import COND, WHILE_LOOP, calls
from delegatec.edge.module import EdgeModule
from delegatec.edge.passes.pass_manager import run_passes
from delegatec.edge.passes.quantized_borders import quantize_borders
from delegatec.edge.printer import print_program
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import quantized
from delegatec.edge.verifier import verify

_CALLS: Final = (quantized.quantize_per_tensor.default, quantized.dequantize_per_tensor.default)
X: Final = torch.linspace(-1.2, 1.7, 8).reshape(2, 4)


def quantize(x: Tensor, scale: float, zero: int = 0) -> Tensor:
    found: Tensor = quantized.quantize_per_tensor(x, scale, zero, -128, 127, torch.int8)
    return found


def qdq(x: Tensor, scale: float, zero: int = 0) -> Tensor:
    """Quantizes and dequantizes."""
    found: Tensor = quantized.dequantize_per_tensor(
        quantize(x, scale, zero), scale, zero, -128, 127, torch.int8
    )
    return found


def _branches(x: Tensor) -> Any:
    def then(x: Tensor) -> Tensor:
        return qdq(qdq(x, 0.02).sin(), 0.01, 3)

    def otherwise(x: Tensor) -> Tensor:
        return qdq(qdq(x, 0.03).cos(), 0.02)

    h = qdq(x, 0.013, -5)
    return quantize(torch.cond(h.sum() > 0, then, otherwise, (h,)), 0.015)


def _returned(x: Tensor) -> Any:
    h = qdq(x, 0.013)
    first, second = torch.cond(
        h.sum() > 0,
        lambda h: (h.clone(), qdq(h, 0.1)),
        lambda h: (qdq(h, 0.2), h.clone()),
        (h,),
    )
    return quantize(first, 0.02), quantize(second, 0.03), quantize(second, 0.04)


def _nested(x: Tensor) -> Any:
    def inner(h: Tensor) -> Tensor:
        found: Tensor = torch.cond(
            qdq(h, 0.05).sum() > 1,
            lambda h: qdq(h, 0.02) * 2,
            lambda h: qdq(h, 0.03),
            (h,),
        )
        return found

    h = qdq(x, 0.013)
    return quantize(torch.cond(h.sum() > 0, inner, lambda h: qdq(h, 0.5), (h,)), 0.02)


def _loop(x: Tensor) -> Any:
    run: Any = while_loop
    state = run(
        lambda i, h, k: i < 3,
        lambda i, h, k: (
            i + 1,
            qdq(qdq(h, 0.02) * 0.7, 0.015, 4),
            qdq(k, 0.1),
        ),
        (torch.tensor(0), qdq(x, 0.013), qdq(x + 1, 0.03)),
    )
    return quantize(state[1], 0.011), quantize(state[2], 0.2)


def _mixed(x: Tensor) -> Any:
    """One operand and one result are also used in floating point."""
    h = qdq(x, 0.013)
    first, second = torch.cond(
        h.sum() > 0,
        lambda h, k: (qdq(h, 0.1) + k, qdq(k, 0.2)),
        lambda h, k: (qdq(h, 0.2), qdq(h, 0.1)),
        (h, h + 1),
    )
    return quantize(first, 0.02), second


def _program(function: Callable[[Tensor], Any]) -> EdgeProgram:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Any:
            return function(x)

    return to_edge(torch.export.export(Model(), (X,)), preserve=_CALLS)


def _edited(program: EdgeProgram) -> bool:
    before = print_program(program)
    run_passes(program, [partial(quantize_borders, operators=(COND, WHILE_LOOP))])
    for part in program.walk():
        verify(part)
    return print_program(program) != before


def _crossing(program: EdgeProgram) -> list[list[str]]:
    """Returns the dtypes of operands and results of each call."""
    return [
        [str(each.meta["val"].dtype)[6:] for each in call.all_input_nodes if "val" in each.meta]
        + [str(each.dtype)[6:] for each in call.meta["val"]]
        for part in program.walk()
        for call in calls(part)
    ]


@pytest.mark.parametrize(
    ("function", "crossing"),
    [
        (_branches, [["bool", "int8", "int8", "int8"]]),
        (_returned, [["bool", *["int8"] * 8]]),
        (_nested, [["bool", *["int8"] * 5], ["bool", *["int8"] * 3]]),
        (_loop, [["int64", *["int8"] * 4, "int64", *["int8"] * 4]]),
        (_mixed, [["bool", "int8", "int8", "float32", "int8", "float32"]]),
    ],
)
def test_integers_cross(function: Callable[[Tensor], Any], crossing: list[list[str]]) -> None:
    program = _program(function)
    wanted = [EdgeModule(program)(x) for x in (X, -X, X * 20)]
    assert _edited(program)
    for x, values in zip((X, -X, X * 20), wanted, strict=True):
        torch.testing.assert_close(EdgeModule(program)(x), values, rtol=0, atol=0)
    assert _crossing(program) == crossing


def test_exchanged_states_stay() -> None:
    def function(x: Tensor) -> Any:
        run: Any = while_loop
        state = run(
            lambda i, a, b: i < 3,
            lambda i, a, b: (i + 1, b.clone(), qdq(a, 0.1)),
            (torch.tensor(0), qdq(x, 0.013), qdq(x + 1, 0.03)),
        )
        return quantize(state[1], 0.011), quantize(state[2], 0.2)

    program = _program(function)
    wanted = EdgeModule(program)(X)
    _edited(program)
    torch.testing.assert_close(EdgeModule(program)(X), wanted, rtol=0, atol=0)


def test_other_operators_stay() -> None:
    program = _program(_branches)
    assert not quantize_borders(program, (WHILE_LOOP,))
    assert [each[1] for each in _crossing(program)] == ["float32"]


def test_floating_point_stays() -> None:
    program = _program(lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)))
    assert not _edited(program)
