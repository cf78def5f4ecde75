# SPDX-License-Identifier: Apache-2.0
"""Rows whose number depends on data, and may be zero, in one delegate of XNNPACK in the stock runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from delegatec.backends.xnnpack.quantized.testing import Layer, rows
from tests.oracle.xnnpack import floats, lowered_program

_MOST: Final = 8
_FUNCTIONS: Final[dict[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "add": lambda x, y: x + y,
    "add a number": lambda x, _: x + 1,
    "clamp": lambda x, _: x.clamp(-0.5, 0.5),
    "clamp on one side": lambda x, _: x.clamp(max=0.5),
    "div": lambda x, y: x / (y.exp() + 1),
    "gelu": lambda x, _: functional.gelu(x),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "mul": lambda x, y: x * y,
    "mul by a number": lambda x, _: x * 1.7,
    "neg": lambda x, _: -x,
    "relu": lambda x, _: x.relu(),
    "sigmoid": lambda x, _: x.sigmoid(),
    "silu": lambda x, _: functional.silu(x),
    "slice": lambda x, y: x[:, 2:11] + y[:, 3:12],
    "square": lambda x, _: x.relu().square(),
    "sub": lambda x, y: x - y,
    "sub a number": lambda x, _: x - 1,
    "tanh": lambda x, _: x.tanh(),
}


def _chosen(x: Tensor, count: Tensor) -> Tensor:
    number: Any = count.item()
    torch._check(number >= 0)
    torch._check(number <= _MOST)
    result: Tensor = x[torch.arange(number)]
    return result


def _check(layer: Layer) -> None:
    x = floats(_MOST, 64)
    report, program = lowered_program(layer, (x, torch.tensor(3)))
    assert len(report.delegates) == 1
    own = {"aten._local_scalar_dense.default", "aten.arange.start_step", "aten.index.Tensor"}
    assert {each.operator for each in report.rejections} <= own
    for count in (3, 0, _MOST, 0, 1):
        (found,) = program.run([x, torch.tensor(count)])
        wanted = layer(x, torch.tensor(count))
        assert found.shape == wanted.shape
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_functions_of_rows(name: str) -> None:
    def function(own: Layer, x: Tensor, count: Tensor) -> Tensor:
        values = functional.linear(_chosen(x, count), own.weight(), own.bias)
        return _FUNCTIONS[name](values, values.sigmoid())

    _check(Layer(function, (20, 64), 8, 0))


@pytest.mark.parametrize(("bits", "group"), [(8, 0), (4, 0), (4, 32)])
def test_rows_quantized_at_run_time(bits: int, group: int) -> None:
    def function(own: Layer, x: Tensor, count: Tensor) -> Tensor:
        return functional.linear(rows(_chosen(x, count)), own.weight(), own.bias)

    _check(Layer(function, (20, 64), bits, group))


def test_other_functions_of_no_rows_are_not_delegated() -> None:
    """Delegates have no empty tensors otherwise."""

    def function(own: Layer, x: Tensor, count: Tensor) -> Tensor:
        return _chosen(x, count).softmax(0)

    report, program = lowered_program(Layer(function, (20, 64), 8, 0), (floats(_MOST, 64), torch.tensor(3)))
    assert not report.delegates
    assert program.run([floats(_MOST, 64), torch.tensor(0)])[0].shape == (0, 64)
