# SPDX-License-Identifier: Apache-2.0
"""Operators that conform to a specification, and those that do not."""

from __future__ import annotations

from typing import Any

import pytest
from delegatec_schemas.tosa_graph import DType, RoundingMode

from delegatec.backends.arm.building.operation import Operation, Value
from delegatec.backends.arm.conformance.problem import problem
from delegatec.backends.arm.specification import TosaSpecification

_Operand = tuple[int, tuple[int, ...]]
F: _Operand = (DType.FP32, (1, 4, 4, 2))
_BF16 = "ADD of BF16 needs the extension bf16"
I8: _Operand = (DType.INT8, (1, 4, 4, 2))


def _value(name: str, operand: _Operand | list[int]) -> Value:
    if isinstance(operand, list):
        return Value(name, DType.SHAPE, (len(operand),), b"", tuple(operand), True)
    return Value(name, *operand)


def _problem(
    specification: str, name: str, inputs: list[_Operand | list[int]], result: _Operand, **attributes: Any
) -> str:
    operands = tuple(_value(f"x{index}", each) for index, each in enumerate(inputs))
    operation = Operation(name, operands, (_value("y", result),), attributes)
    return problem(operation, TosaSpecification.parse(specification)) or ""


@pytest.mark.parametrize(
    ("specification", "operand", "expected"),
    [
        ("TOSA-1.0+FP", DType.FP32, ""),
        ("TOSA-1.0+INT", DType.FP32, "ADD of FP32 needs the profile FP, which TOSA-1.0+INT does not include"),
        ("TOSA-1.0+INT", DType.INT32, ""),
        ("TOSA-1.0+FP", DType.INT32, ""),
        ("TOSA-1.0+INT", DType.INT8, "ADD of INT8: TOSA has none"),
        (
            "TOSA-1.0+FP",
            DType.BF16,
            "ADD of BF16 needs the extension bf16, which TOSA-1.0+FP does not include",
        ),
        ("TOSA-1.0+FP+bf16", DType.BF16, ""),
    ],
)
def test_types(specification: str, operand: int, expected: str) -> None:
    value = (operand, (2, 3))
    assert _problem(specification, "ADD", [value, value], value) == expected


@pytest.mark.parametrize(
    ("size", "pad", "result", "expected"),
    [
        (4, [0, 0, 0, 0], 2, ""),
        (5, [0, 0, 0, 0], 2, "windows of 2 with a stride of 2 do not divide 5 + 0 + 0 elements"),
        (5, [0, 1, 0, 0], 3, ""),
        (4, [0, -1, 0, 0], 1, "negative padding"),
        (4, [2, 2, 0, 0], 4, "padding [2, 2, 0, 0] is not smaller than the kernel [2, 1]"),
    ],
)
def test_windows_end_at_the_end(size: int, pad: list[int], result: int, expected: str) -> None:
    found = _problem(
        "TOSA-1.0+FP",
        "MAX_POOL2D",
        [(DType.FP32, (1, size, 1, 3))],
        (DType.FP32, (1, result, 1, 3)),
        kernel=[2, 1],
        stride=[2, 1],
        pad=pad,
    )
    assert found.removeprefix("MAX_POOL2D: ").startswith(expected) and bool(found) == bool(expected)


@pytest.mark.parametrize(
    ("scale", "offset", "border", "height", "expected"),
    [
        ((2, 1), 0, 0, 7, ""),
        ((2, 1), -2, 0, 9, ""),
        ((2, 1), -3, 0, 10, "an offset of -3 and a border of 0"),
        ((257, 1), 0, 0, 772, "a scale of 257/1"),
        ((1, 16), 0, 0, 1, "a scale of 1/16"),
        ((2, 1), 0, 0, 8, "a height of 4 to 8"),
    ],
)
def test_resize(scale: tuple[int, int], offset: int, border: int, height: int, expected: str) -> None:
    operands: list[_Operand | list[int]] = [F, [*scale, 1, 1], [offset, 0], [border, 0]]
    found = _problem("TOSA-1.0+FP", "RESIZE", operands, (DType.FP32, (1, height, 4, 2)))
    assert expected in found and bool(found) == bool(expected)


def test_ranks_are_equal_and_at_most_six() -> None:
    other = (DType.FP32, (4, 2))
    assert "ranks [2, 4]" in _problem("TOSA-1.0+FP", "MUL", [F, other], F)
    deep = (DType.FP32, (1,) * 7)
    assert "7 dimensions" in _problem("TOSA-1.0+FP", "EXP", [deep], deep)


def test_operands_of_a_list() -> None:
    one = (DType.FP32, (1, 2))
    assert _problem("TOSA-1.0+FP", "CONCAT", [one] * 64, (DType.FP32, (64, 2)), axis=0) == ""
    assert "65 operands" in _problem("TOSA-1.0+FP", "CONCAT", [one] * 65, (DType.FP32, (65, 2)), axis=0)


def test_rescale() -> None:
    wide = (DType.INT32, I8[1])
    zeros: list[_Operand | list[int]] = [
        (DType.INT32, (1,)),
        (DType.INT8, (1,)),
        (DType.INT32, (1,)),
        (DType.INT8, (1,)),
    ]

    def found(rounding: int, specification: str = "TOSA-1.0+INT") -> str:
        return _problem(specification, "RESCALE", [wide, *zeros], I8, scale32=True, rounding_mode=rounding)

    assert found(RoundingMode.SINGLE_ROUND) == ""
    assert "needs the extension doubleround" in found(RoundingMode.DOUBLE_ROUND)
    assert found(RoundingMode.DOUBLE_ROUND, "TOSA-1.0+INT+doubleround") == ""
