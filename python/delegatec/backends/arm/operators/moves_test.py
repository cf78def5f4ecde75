# SPDX-License-Identifier: Apache-2.0
"""Moves of elements in the reference executor, against eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from delegatec_schemas.tosa_graph import DType
from torch import nn
from torch.nn import functional as f

from delegatec.backends.arm.blob import read_blob
from delegatec.backends.arm.testing import compile_module, run_case
from delegatec.backends.common.testing import IMAGE, Call, X, Y, floats

LINE = floats(2, 3, 11)

ONE: dict[str, tuple[Callable[..., Any], torch.Tensor, str]] = {
    "squeeze": (lambda x: x[:, :1].squeeze(1), X, "SLICE RESHAPE"),
    "flatten": (lambda x: x.flatten(), X, "RESHAPE"),
    "permute of the front": (lambda x: x.permute(0, -1, -2), X, "TRANSPOSE"),
    "select": (lambda x: x[:, -1], X, "SLICE RESHAPE"),
    "split": (lambda x: torch.split(x, [1, 3], 2)[1], X, "SLICE"),
    "unbind": (lambda x: sum(x.unbind(1)), X, ""),
    "expand": (lambda x: x[:1].expand(5, 3, 4), X, "SLICE TILE"),
    "expand to more dimensions": (lambda x: x.expand(5, 2, 3, 4), X, "RESHAPE TILE"),
    "repeat": (lambda x: x.repeat(2, 1, 1, 3), X, "RESHAPE TILE"),
    "pad": (lambda x: f.pad(x, (1, 2, 0, 3), value=1.5), X, "PAD"),
    "pad less than nothing": (lambda x: f.pad(x, (-1, 2, 1, -2)), X, "SLICE PAD"),
    "flip": (lambda x: x.flip(0, -1), X, "REVERSE REVERSE"),
    "circular": (nn.CircularPad2d((1, 2, 3, 0)), IMAGE, ""),
    "unshuffle": (nn.PixelUnshuffle(2), IMAGE[:, :, :6], ""),
    "shuffle of channels": (nn.ChannelShuffle(3), IMAGE, "RESHAPE TRANSPOSE RESHAPE"),
    "shuffle": (nn.PixelShuffle(2), floats(2, 8, 3, 4), "RESHAPE TRANSPOSE RESHAPE"),
    "gated": (lambda x: f.glu(x, 2), X, ""),
    "stack": (lambda x: torch.stack([x, x], 1), X, "RESHAPE CONCAT"),
}


@pytest.mark.parametrize("name", ONE)
def test_of_one_tensor(name: str) -> None:
    function, x, expected = ONE[name]
    # a move alone is not worth a delegate call
    run_case(lambda x: function(x * 2.0), (x,), expected and f"MUL {expected}")


@pytest.mark.parametrize(
    ("start", "end", "step"), [(0, 11, 2), (1, 11, 3), (10, 11, 4), (2, 9, 5), (0, 11, 7), (3, 11, 100)]
)
@pytest.mark.parametrize("dim", [0, 2])
def test_strides(start: int, end: int, step: int, dim: int) -> None:
    x = floats(11, 3, 11)
    run_case(lambda x: (x * 2.0)[(slice(None),) * dim + (slice(start, end, step),)], (x,))


def test_concatenation_promotes() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.cat([x * 2, y], 1)

    run_case(function, (X, Y.int()), "MUL CAST CONCAT", specification="TOSA-1.0+FP+INT")


def test_constants() -> None:
    """Their order of dimensions changes when they are stored."""

    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(floats(70, 5, 80))

        def forward(self, x: torch.Tensor) -> Any:
            return x + self.weight.permute(2, 0, 1), x * self.weight.view(80, 70, 5)

    run_case(Module(), (floats(80, 70, 5),), "ADD MUL")


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.int16, torch.int32])
def test_other_dtypes(dtype: torch.dtype) -> None:
    def moved(x: torch.Tensor) -> torch.Tensor:
        x = f.pad(torch.cat([x, x], 1)[:, 1:], (1, 1)).repeat(2, 1, 1)
        return x.logical_not() if dtype == torch.bool else -x

    run_case(moved, ((X * 9).to(dtype),), specification="TOSA-1.0+FP+INT+int16")


def test_uint8_of_floats_stays_outside() -> None:
    """A conversion to the bytes of int8 would end at 127."""
    module, x = Call(lambda x: (x * 2).to(torch.uint8)), torch.tensor([0.0, 63.9, 64.0, 127.3])
    compiled = compile_module(module, (x,), specification="TOSA-1.0+FP+INT")
    ((name, _, message),) = compiled.left
    assert name == "aten._to_copy.default" and "float32 to uint8" in message
    assert compiled(x)[0].equal(module(x))


def test_bytes_that_become_integers_stay_outside() -> None:
    """A conversion from the bytes of int8 would be negative from 128 on."""
    module = Call(lambda x: torch.cat([torch.tensor([-2.0]), x]) * 2)
    x = torch.tensor([7, 200, 128], dtype=torch.uint8)
    compiled = compile_module(module, (x,), specification="TOSA-1.0+FP+INT")
    ((name, _, message),) = compiled.left
    assert name == "aten.cat.default" and "uint8 to float32" in message
    assert compiled(x)[0].equal(module(x))


def test_bytes_beyond_int8_are_not_rejected_by_torch() -> None:
    """The delegate is asked for a tensor of them, as a part of what it does not support as a whole."""
    module, x = Call(lambda x: x.masked_fill(x > 6, 200)), torch.tensor([7, 200, 3, 0], dtype=torch.uint8)
    compiled = compile_module(module, (x,), specification="TOSA-1.0+FP+INT")
    assert compiled(x)[0].equal(module(x))


def test_a_value_without_an_operator_has_a_type_of_the_specification() -> None:
    """A constant that is an output, and an operand that is its own result, become IDENTITY."""

    def function(x: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            x.relu() + 1,
            torch.pow(b, 0),
            torch.scalar_tensor(2.0, dtype=torch.bfloat16).expand(2),
            b[:, :],
        )

    args = torch.rand(2, 3), torch.rand(2, 3).bfloat16()
    for specification in ("TOSA-1.0+FP", "TOSA-1.0+FP+bf16"):
        compiled = compile_module(Call(function), args, specification=specification)
        graphs = [read_blob(memoryview(blob)) for blob in compiled.blobs()]
        found = {value.dtype for graph in graphs for each in graph.operations for value in each.outputs}
        assert (DType.BF16 in found) == ("bf16" in specification)
        for result, wanted in zip(compiled(*args), function(*args), strict=True):
            assert torch.equal(result, wanted)
