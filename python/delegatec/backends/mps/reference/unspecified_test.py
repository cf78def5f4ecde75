# SPDX-License-Identifier: Apache-2.0
"""Unspecified behaviors: each choice affects a blob that depends on it, and can raise."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any, Final

import pytest
import torch
from delegatec_schemas.mps_graph import (
    BinaryT,
    CastT,
    DataType,
    DequantizePerChannelGroupT,
    DivisionT,
    IndexPutT,
    IndexSelectT,
    IndexTensorT,
    Pool2dT,
    ScaledBinaryT,
    ScatterT,
    SelectT,
    UnaryT,
)

from delegatec.backends.mps.reference.unspecified import DEFAULT, STRICT, Unspecified
from delegatec.backends.mps.testing.reference.synthetic import executor, make_blob
from delegatec.diagnostics import DelegatecError

nan = math.nan
ROW: Final = torch.tensor([1.0, 2.0, 3.0])
SCALED: Final = ScaledBinaryT(0, 1, 10, 1.0)
POOL: Final = {
    "kernelHeight": 1,
    "kernelWidth": 3,
    "strideHeight": 1,
    "dilationHeight": 1,
    "dilationWidth": 1,
}
Shown = tuple[str, object, list[torch.Tensor], dict[str, list[Any]], dict[str, Any]]


def _pool(stride: int = 3, **more: Any) -> Pool2dT:
    return Pool2dT(output1Id=10, output2Id=11, strideWidth=stride, **POOL, **more)


def _int(*values: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


# Behavior -> operation, table, inputs, result by choice, and further parts of the blob.
SHOWN: Final[dict[str, Shown]] = {
    "rounding": (
        "Round",
        UnaryT(0, 10),
        [torch.tensor([0.5, 1.5, -2.5, 0.49999997])],
        {"away": [1, 2, -3, 0], "even": [0, 2, -2, 0]},
        {},
    ),
    "nan": (
        "Minimum",
        BinaryT(0, 1, 10),
        [torch.tensor([nan, 1.0, nan]), torch.tensor([2.0, nan, nan])],
        {"other": [2.0, 1.0, nan], "nan": [nan, nan, nan]},
        {},
    ),
    "ties": (
        "MaxPool2DWithIndices",
        _pool(),
        [torch.tensor([[[[5.0, 1.0, 5.0, 2.0, 7.0, 7.0]]]])],
        {"first": [0, 4], "last": [2, 5]},
        {"result": 11, "dtype": torch.int32},
    ),
    "reads": (
        "IndexSelect",
        IndexSelectT(0, 10, 0, 1),
        [ROW, _int(1, -1, 3)],
        {"zero": [2, 0, 0], "nearest": [2, 1, 3], "wrap": [2, 3, 1]},
        {},
    ),
    "writes": (
        "Scatter",
        ScatterT(0, 10, 0, 1, 2),
        [ROW, _int(-1, 4), torch.tensor([8.0, 9.0])],
        {"skip": [1, 2, 3], "nearest": [8, 2, 9], "wrap": [1, 9, 8]},
        {},
    ),
    "duplicates": (
        "IndexPut",
        IndexPutT(0, [1], [], 2, 10),
        [ROW, _int(1, 1), torch.tensor([8.0, 9.0])],
        {"last": [1, 9, 3], "first": [1, 8, 3]},
        {},
    ),
    "float_casts": (
        "Cast",
        CastT(0, 10, DataType.INT8),
        [torch.tensor([300.0, -1.5, -200.0, nan])],
        {"saturate": [127, -1, -128, 0], "wrap": [44, -1, 56, -128]},
        {"dtype": torch.int8},
    ),
    "integer_casts": (
        "Cast",
        CastT(0, 10, DataType.INT8),
        [_int(300, -1, -200)],
        {"wrap": [44, -1, 56], "saturate": [127, -1, -128]},
        {"dtype": torch.int8},
    ),
    "bool_cast": (
        "Cast",
        CastT(0, 10, DataType.BOOL),
        [torch.tensor([0.5, 0.0, -1.5])],
        {"nonzero": [True, False, True], "truncated": [False, False, True]},
        {"dtype": torch.bool},
    ),
    "quotient": (
        "Div",
        DivisionT(0, 1, 10, None),
        [_int(7, -7, 0), _int(2, 0, 0)],
        {"zero": [3, 0, 0], "ones": [3, -1, -1]},
        {"dtype": torch.int32},
    ),
    "booleans": (
        "Add",
        SCALED,
        [torch.tensor([True, True, False]), torch.tensor([True, False, False])],
        {"logical": [True, True, False], "modular": [False, True, False]},
        {"dtype": torch.bool},
    ),
    "bounds": (
        "Clamp",
        UnaryT(0, 10),
        [ROW],
        {"high": [1.5, 1.5, 1.5], "low": [2.5, 2.5, 2.5]},
        {"bounds": (2.5, 1.5)},
    ),
    "windows": (
        "MaxPool2DWithIndices",
        _pool(paddingRight=3),
        [ROW.reshape(1, 1, 1, 3)],
        {"infinite": [3, -math.inf], "zero": [3, 0]},
        {},
    ),
    "indices": (
        "IndexTensor",
        IndexTensorT(0, [1], 10),
        [ROW, _int(2, 0, dtype=torch.int64)],
        {"convert": [3, 1]},
        {},
    ),
    "axes": ("Select", SelectT(0, 10, -1, 1), [ROW[None]], {"wrap": [2]}, {}),
    "scales": (
        "DequantizePerChannelGroup",
        DequantizePerChannelGroupT(5, 10, 0, -1),
        [torch.tensor([[0.1], [2.0]])],
        {"convert": [0.1, -0.2, 6.0, 14.0]},
        {"int4": {5: torch.tensor([[1, -2], [3, 7]], dtype=torch.int8)}, "dtype": torch.float16},
    ),
    "outputs": ("Neg", UnaryT(0, 10), [ROW], {"copy": [1, 2, 3]}, {"result": 0}),
}


def _run(behavior: str, choices: Unspecified) -> torch.Tensor:
    name, table, inputs, results, more = SHOWN[behavior]
    more = dict(more)
    count = len(next(iter(results.values())))
    declared = torch.zeros(count, dtype=more.pop("dtype", torch.float32))
    blob = make_blob([(name, table)], inputs, {more.pop("result", 10): declared}, **more)
    (result,) = executor(blob, choices)(inputs)
    return result


def test_every_behavior_is_shown_with_every_choice() -> None:
    named = {f"{name}={choice}" for name, (*_, results, _) in SHOWN.items() for choice in results}
    assert set(SHOWN) == {field.name for field in fields(Unspecified)}
    defaults = {f"{field.name}={field.default}" for field in fields(Unspecified)}
    assert named == (set(Unspecified.variants()) | defaults) - {"reads=raise", "writes=raise"}


@pytest.mark.parametrize(
    ("behavior", "choice"),
    [(name, choice) for name, (*_, results, _) in SHOWN.items() for choice in results],
)
def test_a_choice_decides(behavior: str, choice: str) -> None:
    change: dict[str, Any] = {behavior: choice}
    result = _run(behavior, replace(DEFAULT, **change))
    wanted = torch.tensor(SHOWN[behavior][3][choice])
    torch.testing.assert_close(result.double(), wanted.double(), rtol=1e-3, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("behavior", SHOWN)
def test_it_can_be_rejected(behavior: str) -> None:
    with pytest.raises(DelegatecError, match="unspecified behavior of MPSGraph:") as error:
        _run(behavior, STRICT)
    assert [d.code for d in error.value.diagnostics] == ["DC440"]


def test_gathers_out_of_range_are_rejected_by_default() -> None:
    for behavior in ("reads", "writes"):
        with pytest.raises(DelegatecError, match="out of range"):
            _run(behavior, DEFAULT)


@pytest.mark.parametrize("operation", ["Clamp", "Relu", "MaxPool2DWithIndices"])
def test_nan_is_dropped_or_kept_by_all_extrema(operation: str) -> None:
    x = torch.tensor([[[[1.0, nan, 3.0]]]])
    table = {"Clamp": UnaryT(0, 10), "Relu": BinaryT(0, 0, 10)}.get(operation, _pool())
    wanted = {"Clamp": [1.0, 0.5, 2.0], "Relu": [1.0, 0.0, 3.0]}.get(operation, [3.0])
    blob = make_blob([(operation, table)], [x], {10: torch.zeros(len(wanted))}, bounds=(0.5, 2.0))
    assert executor(blob)([x])[0].tolist() == wanted
    assert executor(blob, Unspecified(nan="nan"))([x])[0].isnan().any()


def test_ties_count_only_where_an_index_is_read() -> None:
    x = torch.ones(1, 1, 1, 3)
    blob = make_blob([("MaxPool2DWithIndices", _pool())], [x], {10: torch.ones(1, 1, 1, 1)})
    assert executor(blob, STRICT)([x])[0].item() == 1.0


def test_behavior_that_does_not_occur_does_not_raise() -> None:
    x = torch.tensor([0.25, -1.75])
    blob = make_blob([("Round", UnaryT(0, 10))], [x], {10: x})
    assert executor(blob, STRICT)([x])[0].tolist() == [0.0, -2.0]
