# SPDX-License-Identifier: Apache-2.0
"""Comparisons, logic and selection by integers, for targets without bools."""

from __future__ import annotations

from typing import Any, Final

import pytest
import torch

from delegatec.backends.arm.dialect import TOSA
from delegatec.backends.arm.integer.features import Features
from delegatec.backends.arm.integer.testing import (
    calls,
    check,
    dequantize,
    quantize,
    quantized_values,
    reasons,
)
from delegatec.edge import EdgeProgram

aten = torch.ops.aten

_FEATURES: Final = Features(bools=False)
_TYPES: Final = {torch.int8: (0.02, -7), torch.int16: (1 / 8192, 0)}
_COMPARISONS: Final = {
    "gt": torch.gt,
    "ge": torch.ge,
    "lt": torch.lt,
    "le": torch.le,
    "eq": torch.eq,
    "ne": torch.ne,
}
_EXTREME: Final = (-(1 << 31), 1 - (1 << 31), -5, -1, 0, 1, 4, (1 << 31) - 2, (1 << 31) - 1)


def _check(function: Any, *args: torch.Tensor, tolerance: int = 0) -> EdgeProgram:
    program = check(function, *args, tolerance=tolerance, features=_FEATURES)
    for node in program.graph.nodes:
        value = node.meta.get("val")
        assert not isinstance(value, torch.Tensor) or value.dtype != torch.bool
    return program


def _choice(condition: Any, dtype: torch.dtype) -> Any:
    """Returns a function of quantized values whose result is one of two values."""
    scale, zero = _TYPES[dtype]

    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        one, other = dequantize(x, scale, zero), dequantize(y, scale, zero)
        return quantize(torch.where(condition(one, other), one, other * 0.5), scale, zero, dtype)

    return function


def _operands(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = quantized_values(5, 40, dtype=dtype), quantized_values(5, 40, dtype=dtype, seed=1)
    return x, torch.where(quantized_values(5, 40, seed=2) > 60, x, y)  # some are equal


@pytest.mark.parametrize("dtype", _TYPES)
@pytest.mark.parametrize("name", _COMPARISONS)
def test_comparisons_of_values(name: str, dtype: torch.dtype) -> None:
    _check(_choice(_COMPARISONS[name], dtype), *_operands(dtype), tolerance=1)


@pytest.mark.parametrize("dtype", _TYPES)
def test_comparisons_with_scalars(dtype: torch.dtype) -> None:
    def condition(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return ((x > 0.1) & ~(y <= -0.2)) | ((x < 0) ^ (y != 0.5))

    _check(_choice(condition, dtype), *_operands(dtype), tolerance=1)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("name", _COMPARISONS)
def test_comparisons_of_integers(name: str, dtype: torch.dtype) -> None:
    """Differences of int32 values may overflow int32."""
    limits = torch.iinfo(dtype)
    values = torch.tensor([min(max(each, limits.min), limits.max) for each in _EXTREME])
    x, y = (each.to(dtype) for each in torch.meshgrid(values, values, indexing="ij"))
    x, y = x.contiguous(), y.contiguous()
    compare = _COMPARISONS[name]
    _check(lambda x, y: torch.where(compare(x, y), x, y + 0), x, y)
    _check(
        lambda x, y: compare(x, y).to(torch.int32) + compare(x, 4) * 2 + compare(torch.tensor(-5), y) * 4,
        x,
        y,
    )


@pytest.mark.parametrize("scalar", _EXTREME)
@pytest.mark.parametrize("name", _COMPARISONS)
def test_comparisons_of_integers_with_scalars(name: str, scalar: int) -> None:
    x = torch.tensor(_EXTREME, dtype=torch.int32)
    compare = _COMPARISONS[name]
    _check(lambda x: compare(x, scalar).to(torch.int8) + (x[2:3] == x).to(torch.int8) * 2, x)


@pytest.mark.parametrize("dtype", _TYPES)
def test_a_condition_of_quantized_values_is_a_table(dtype: torch.dtype) -> None:
    scale, zero = _TYPES[dtype]

    def function(x: torch.Tensor) -> Any:
        value = dequantize(x, scale, zero)
        return quantize(torch.where(value > 0.1, value, -value), scale, zero, dtype)

    program = _check(function, quantized_values(5, 40, dtype=dtype), tolerance=1)
    assert (calls(program) == [TOSA.table.default]) == (dtype == torch.int8)


@pytest.mark.parametrize("dtype", _TYPES)
def test_masks_are_moved_reduced_and_multiplied(dtype: torch.dtype) -> None:
    scale, zero = _TYPES[dtype]

    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        one, other = dequantize(x, scale, zero), dequantize(y, scale, zero)
        is_greater = torch.cat([(one > other)[:, :20], (one < 0.1)[:, 20:]], 1)
        both = is_greater.mT.flip(0).mT & is_greater.any(0, keepdim=True) & (one > -2).all()
        total = one * both + both.float() * 0.25 + one.masked_fill(both, 0.1)
        return quantize(total, scale * 2, zero, dtype)

    _check(function, *_operands(dtype), tolerance=1)


def _chosen_by(condition: Any) -> Any:
    """Returns a function of int8 values that selects by a function of a mask and a value."""

    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        one, other = dequantize(x, 0.02, -7), dequantize(y, 0.02, -7)
        return quantize(torch.where(condition(one > other, one), one, other), 0.02, -7, torch.int8)

    return function


@pytest.mark.parametrize("scalar", [0.5, 0, 1, 200])
@pytest.mark.parametrize("name", ["lt", "ge", "ne"])
def test_comparisons_of_bool_with_scalars(name: str, scalar: float) -> None:
    _check(_chosen_by(lambda m, x: _COMPARISONS[name](m, scalar)), *_operands(torch.int8), tolerance=1)


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param(lambda m, x: m > torch.arange(40) * 9, id="with integers"),
        pytest.param(lambda m, x: m.masked_fill(x > 0.3, 2), id="filled"),
        pytest.param(lambda m, x: (x - 0.3).any(0, keepdim=True), id="any of floats"),
        pytest.param(lambda m, x: torch.any(m, []), id="no dimension"),
    ],
)
def test_bool_with_other_dtypes_is_not_converted(condition: Any) -> None:
    found = reasons(_chosen_by(condition), _operands(torch.int8), _FEATURES)
    assert any("bools with other dtypes" in each or "no dimension" in each for each in found)


def test_parts_of_a_mask() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        one, other = dequantize(x, 0.02, -7), dequantize(y, 0.02, -7)
        first, second = (one > other).chunk(2, 1)
        return quantize(torch.where(first & ~second, one[:, :20], other[:, 20:]), 0.02, -7, torch.int8)

    _check(function, *_operands(torch.int8), tolerance=1)


@pytest.mark.parametrize("dtype", _TYPES)
def test_a_constant_mask_is_added_to_quantized_values(dtype: torch.dtype) -> None:
    """Like that of causal attention: masked scores become the minimum quantized value, and then 0."""
    scale, zero = _TYPES[dtype]

    def function(x: torch.Tensor) -> Any:
        position = torch.arange(8)
        is_causal = position.unsqueeze(1) >= position
        scores = torch.where(is_causal, dequantize(x, scale, zero), torch.finfo(torch.float32).min)
        scores = dequantize(quantize(scores, scale, zero, dtype), scale, zero)
        return quantize(torch.where(is_causal, scores.exp(), 0.0), scale * 4, zero, dtype)

    program = _check(
        function, quantized_values(3, 8, 8, dtype=dtype) // 4, tolerance=1 if dtype == torch.int8 else 5
    )
    found = calls(program)
    assert (found.count(aten.add.Tensor), found.count(aten.mul.Tensor)) == (1, 1)


def test_masks_of_quantized_constants() -> None:
    """As another quantizer writes them, with every operand quantized."""

    def quantized(x: torch.Tensor, scale: float, zero: int) -> Any:
        return dequantize(quantize(x, scale, zero), scale, zero)

    def function(x: torch.Tensor) -> Any:
        position = quantized(torch.arange(8, dtype=torch.float32), 0.05, -128)
        is_causal = torch.ones(8, 8, dtype=torch.bool) & (position.unsqueeze(1) >= position)
        zero, far = (quantized(torch.full((1,), each), 1.0, 127) for each in (0.0, -255.0))
        bias = torch.where(is_causal, zero, far)
        return quantize(dequantize(x, 1.0, 3) + quantized(bias, 1.0, 127), 1.5, 60)

    program = _check(function, quantized_values(2, 8, 8), tolerance=1)
    assert calls(program).count(aten.add.Tensor) == 1
    assert aten.mul.Tensor not in calls(program)


def test_choices_of_bool_and_integers() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        chosen = torch.where(x > y, x > 10, y < 3)
        return torch.where(chosen, x, 7).to(torch.int16) + torch.where(chosen, 3, y.to(torch.int16))

    _check(function, *_operands(torch.int8))
