# SPDX-License-Identifier: Apache-2.0
"""Broadcasts along dynamic sizes that are 1 in the first run, in the stock runtime.

The runtime plans memory at the first run. If an operand has the size of the result then, the result gets its
memory, for all sizes: later results were wrong, or the heap was corrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as f

from delegatec.backends.xnnpack.quantized.testing import qdq
from tests.oracle.xnnpack import floats, lowered_program, run_in_runtime

_LARGEST: Final = 90
Function = Callable[[Tensor], Tensor]


class _Module(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def _row(x: Tensor) -> Tensor:
    """Returns one column of x, an inner value of the delegate, which is not zero."""
    return x[:, :1] * x[:, :1] + 1.0


FUNCTIONS: Final[dict[str, Function]] = {
    "expand": lambda x: (x[:, :1] * 2).expand(2, x.shape[1]) * 3 + 0 * x,
    "normalize": lambda x: f.normalize(x, 1.0, 1),
    "softmax of logarithms": lambda x: (x - x.logsumexp(1, keepdim=True)) * 2,
    "centered": lambda x: (x - x.mean(1, keepdim=True)) * 2,
    "add": lambda x: (_row(x) + x) * 2,
    "sub": lambda x: (_row(x) - x) * 2,
    "mul": lambda x: (x * _row(x)) * 2,
    "div": lambda x: (x / _row(x)) * 2,
    "reciprocal": lambda x: (_row(x) / (x.abs() + 1)) * 2,
    "maximum": lambda x: torch.maximum(x, _row(x)) * 2,
    "minimum": lambda x: torch.minimum(_row(x), x) * 2,
    "both operands": lambda x: (_row(x.t()[:, :1]) * _row(x)[:1]) * 2,
    "lower rank": lambda x: (_row(x)[:1] * x[:1, None]) * 2,
    "outer product": lambda x: (_row(x.t()) * 0.5 * _row(x.t()).t()) * 2,
    "limits": lambda x: (x - _row(x)).relu() * 2,
    "two in a row": lambda x: ((x * _row(x)) - _row(x)) * 2,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("sizes", [(1, 5, _LARGEST, 1, 7), (5, 1, _LARGEST)])
def test_operands_that_are_as_large_as_the_result_at_first(name: str, sizes: tuple[int, ...]) -> None:
    calls = [(floats(2, size, seed=size),) for size in (3, *sizes)]
    shapes = ({1: Dim("size", min=1, max=_LARGEST)},)
    module = _Module(FUNCTIONS[name])
    _, program = lowered_program(module, calls[0], shapes)
    for (x,) in calls[1:]:
        torch.testing.assert_close(program.run([x])[0], module(x), rtol=2e-5, atol=2e-6)


def test_a_copy_of_an_input() -> None:
    """The copy that keeps the view out of the memory of the result had this memory itself."""
    module = _Module(lambda x: (x[:, None] * x).sin())
    _, program = lowered_program(module, (floats(3),), ({0: Dim("size", min=1, max=9)},))
    for size in (1, 9, 4):
        x = floats(size, seed=size)
        torch.testing.assert_close(program.run([x])[0], module(x), rtol=2e-5, atol=2e-6)


def test_several_dynamic_sizes() -> None:
    """In each run another size may be 1."""

    def function(x: Tensor) -> Tensor:
        mean = x.mean((2, 3), keepdim=True)
        return ((x - mean) / (mean.abs() + 1)) * (mean + x.mean(2, keepdim=True))

    module = _Module(function)
    size = {2: Dim("height", min=1, max=20), 3: Dim("width", min=1, max=30)}
    _, program = lowered_program(module, (floats(2, 3, 5, 6),), (size,))
    for height, width in ((1, 1), (1, 7), (9, 1), (20, 30), (1, 1), (4, 3)):
        x = floats(2, 3, height, width, seed=height)
        torch.testing.assert_close(program.run([x])[0], module(x), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("operation", [torch.add, torch.sub, torch.mul, torch.maximum])
def test_quantized_values(operation: Callable[[Tensor, Tensor], Tensor]) -> None:
    def function(x: Tensor) -> Tensor:
        row = qdq(qdq(x)[:, :1].abs(), 0.043, -7)
        return qdq(qdq(operation(qdq(x), row), 0.08, 11).relu(), 0.08, 11)

    module = _Module(function)
    _, program = lowered_program(module, (floats(2, 5),), ({1: Dim("size", min=1, max=_LARGEST)},))
    for size in (1, 5, _LARGEST, 1):
        x = floats(2, size, seed=size)
        off = (program.run([x])[0] - module(x)).abs().max() / 0.08
        assert off < 1.5, f"{off} quantization steps at size {size}"


def test_slopes_that_a_model_computes() -> None:
    module = _Module(lambda x: f.prelu(x, (x[0, 0, :1] * 0.1 + 0.2).abs()) * 2)
    calls: list[Any] = [(floats(2, 1, size, seed=size),) for size in (3, 1, 5, 90)]
    run_in_runtime(module, calls, ({2: Dim("size", min=1, max=_LARGEST)},))
