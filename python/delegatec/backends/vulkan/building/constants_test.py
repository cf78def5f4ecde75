# SPDX-License-Identifier: Apache-2.0
"""Constants that the device cannot store: each is an error with its name and line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.backends.vulkan.testing import compile_module
from delegatec.diagnostics import DelegatecError, Diagnostic

INTEGERS = torch.arange(12).reshape(3, 4)
_BIG = 3_000_000_000


class Scaled(torch.nn.Module):
    """Multiplies by a buffer, and adds another one."""

    first: torch.Tensor
    second: torch.Tensor

    def __init__(self, values: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("first", values)
        self.register_buffer("second", -values)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + 1) * self.first + self.second


class Applied(torch.nn.Module):
    """Applies a function, on a line of this file."""

    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x + 1)


def problems(module: torch.nn.Module, x: torch.Tensor, **options: str) -> tuple[Diagnostic, ...]:
    """Returns the problems of a module that cannot be lowered; all are DC406 and have a line of this file."""
    with pytest.raises(DelegatecError) as error:
        compile_module(module, (x,), **options)
    for each in error.value.diagnostics:
        assert each.code == "DC406"
        assert each.location is not None and each.location.file.endswith("constants_test.py")
    return tuple(error.value.diagnostics)


def test_all_buffers_beyond_int32_are_named() -> None:
    found = problems(Scaled(torch.tensor([_BIG, 1, 2, 3])), INTEGERS)
    assert [(each.message, each.node) for each in found] == [
        ("buffer first has values from 1 to 3000000000, beyond int32", "mul"),
        ("buffer second has values from -3000000000 to -1, beyond int32", "add_1"),
    ]
    assert all("int32" in each.help and "fp16" not in each.help for each in found)


def test_all_buffers_beyond_float16_are_named() -> None:
    found = problems(Scaled(torch.tensor([1e6, 1.0, 2.0, 3.0])), INTEGERS.float(), precision="fp16")
    assert [(each.message, each.node) for each in found] == [
        ("buffer first has 1 value beyond float16 (+-65504), the largest 1e+06", "mul"),
        ("buffer second has 1 value beyond float16 (+-65504), the largest -1e+06", "add_1"),
    ]
    assert all("precision fp32" in each.help for each in found)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * _BIG,
        lambda x: x < _BIG,
        lambda x: x == _BIG,
        lambda x: _BIG - x,
        lambda x: torch.add(x, x, alpha=_BIG),
    ],
)
def test_scalars_beyond_int32_are_named(function: Callable[[torch.Tensor], Any]) -> None:
    (found,) = problems(Applied(function), INTEGERS)
    assert found.message == "the scalar 3000000000 is beyond int32"
    assert "int32" in found.help and "fp16" not in found.help


def test_the_bounds_of_int32_are_within_it() -> None:
    low, high = torch.iinfo(torch.int32).min, torch.iinfo(torch.int32).max
    compiled = compile_module(Applied(lambda x: (x < high) & (x > low)), (INTEGERS,))
    assert len(compiled.delegates) == 1
    compile_module(Scaled(torch.tensor([low + 1, high, 0, 0])), (INTEGERS,))
