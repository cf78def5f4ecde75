# SPDX-License-Identifier: Apache-2.0
"""Integers without the profile INT, whose operators for integers are few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from delegatec_schemas.tosa_graph import DType
from torch.nn import functional as f

from delegatec.backends.arm.testing import graph_of, run_case

LARGE = torch.tensor(
    [[0, 1, -1, 65536, -65536, 65535], [2**24 + 1, -(2**24) - 1, 2**31 - 1, -(2**31), 2**30 + 3, -7]],
    dtype=torch.int32,
)
OTHER = LARGE.flip(0, 1) + torch.tensor([0, 1, 0, -1, 0, 2], dtype=torch.int32)

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "view": lambda x, y: x.view(4, 3),
    "permute": lambda x, y: x.t(),
    "slice": lambda x, y: x[:, 1::2],
    "select": lambda x, y: x[:, -1],
    "cat": lambda x, y: torch.cat([x, y]),
    "pad": lambda x, y: f.pad(x, (1, 2), value=2**25 + 1),
    "pad with a negative scalar": lambda x, y: f.pad(x, (1, 2), value=-(2**25) - 1),
    "repeat": lambda x, y: x.repeat(2, 2),
    "flip": lambda x, y: x.flip(1),
    "index_select": lambda x, y: x.index_select(1, torch.tensor([3, 0])),
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "eq of a scalar": lambda x, y: x == 2**24 + 1,
    "lt of a scalar": lambda x, y: x < -(2**24),
    "where": lambda x, y: torch.where(x > y, x, y),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "clamp": lambda x, y: x.clamp(-(2**25), 2**29 + 1),
    "neg": lambda x, y: -(x + 1),
    "bool": lambda x, y: x.bool(),
    "difference of ranks": lambda x, y: (
        torch.div(x, 2, rounding_mode="trunc").view(4, 3) - torch.div(y, 4, rounding_mode="trunc")[0, :3]
    ),
    "sum": lambda x, y: (x > y).sum(1),
    "max": lambda x, y: x.clamp(-(2**20), 7).amax(1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_integers_are_exact(name: str) -> None:
    large = torch.where(LARGE == -(2**31), LARGE + 1, LARGE)
    # a move alone is not worth a delegate call
    run_case(lambda x, y: FUNCTIONS[name](x - 1, y), (large, OTHER), specification="TOSA-1.0+FP")


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("name", ["tensor", "scalar", "of a scalar"])
def test_shifts_keep_the_sign(dtype: torch.dtype, name: str) -> None:
    functions: dict[str, Callable[..., Any]] = {
        "tensor": lambda x, by: x >> by,
        "scalar": lambda x, by: (x + by) >> 3,
        "of a scalar": lambda x, by: -77 >> by,
    }
    info = torch.iinfo(torch.int32 if dtype == torch.int64 else dtype)
    bits = min(info.bits, 32)
    x = torch.tensor([info.min, info.min + 1, -7, -1, 0, 1, 9, info.max], dtype=dtype)
    by = torch.arange(bits, dtype=dtype).unsqueeze(1)
    run_case(functions[name], (x, by - by if name == "scalar" else by), specification="TOSA-1.0+FP")


_KINDS = [torch.bool, torch.int8, torch.int16, torch.int32]


@pytest.mark.parametrize("source", _KINDS)
@pytest.mark.parametrize("dtype", _KINDS)
def test_integers_wrap(source: torch.dtype, dtype: torch.dtype) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return (x | x.logical_not() if x.dtype == torch.bool else x - 1).to(dtype)

    run_case(function, (LARGE.to(source),), specification="TOSA-1.0+FP")


def test_types_are_promoted_before_ranks() -> None:
    x, by = torch.arange(-4, 4, dtype=torch.int8), torch.tensor(2)
    run_case(lambda x, by: (x + 1) << by, (x, by), specification="TOSA-1.0+FP")


def test_integers_of_two_ranks_are_reshaped_in_floating_point() -> None:
    x, y = torch.arange(4, dtype=torch.int32), torch.arange(16, dtype=torch.int32).view(1, 4, 4)
    compiled = run_case(lambda x, y: x * y, (x, y), specification="TOSA-1.0+FP")
    for operation in graph_of(compiled).operations:
        assert operation.name != "RESHAPE" or operation.inputs[0].dtype == DType.FP32


def test_an_integer_input_is_not_transposed() -> None:
    """FP has no TRANSPOSE of integers; an input is not a constant, which is stored in any order."""
    x = torch.arange(-52, 53, dtype=torch.int32).reshape(5, 3, 7) * 20_000_000
    compiled = run_case(lambda x: x.permute(0, 2, 1) + 1, (x,), specification="TOSA-1.0+FP")
    moved = [each for each in graph_of(compiled).operations if each.name == "TRANSPOSE"]
    assert {each.inputs[0].dtype for each in moved} == {DType.FP32}
