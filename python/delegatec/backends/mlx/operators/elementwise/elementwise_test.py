# SPDX-License-Identifier: Apache-2.0
"""Functions of elements, bounds, creation: the nodes that rows emit, dtypes, and calls that are rejected."""

from __future__ import annotations

import math
from typing import Final

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.common.testing import BOOL, EDGES, PAIRS, Function, X, Y, ints
from delegatec.backends.mlx.blob import read_blob
from delegatec.backends.mlx.testing import operations
from delegatec.backends.mlx.testing.grid import PRECISIONS, rejected, run_case

_INTS: Final = ints(2, 3, 4, high=9) - 4

CASES: Final[dict[str, tuple[Function, tuple[torch.Tensor, ...], str]]] = {
    "silu": (F.silu, (X,), "Silu"),
    "gelu": (F.gelu, (X,), "Gelu"),
    "gelu, tanh": (lambda x: F.gelu(x, approximate="tanh"), (X,), "Gelu"),
    "relu": (F.relu, (X,), "Maximum"),
    "relu6": (lambda x: F.relu6(x * 9), (X,), "Multiply Clip"),
    "square": (lambda x: x**2, (X,), "Square"),
    "root": (lambda x: (x.abs() + 0.1) ** 0.5, (X,), "Abs Add Sqrt"),
    "power": (lambda x: x.abs() ** 1.7, (X,), "Abs Power"),
    "powers of tensors": (lambda x, y: x.abs() ** y, (X, Y), "Abs Power"),
    "sum with a factor": (lambda x, y: torch.add(x, y, alpha=0.5), (X, Y), "Multiply Add"),
    "difference from a number": (lambda x: 2 - x, (X,), "Subtract"),
    "sum of bools": (lambda x, y: x + y, (BOOL, ~BOOL), "LogicalOr"),
    "product of bools": (lambda x, y: x * y, (BOOL, ~BOOL), "LogicalAnd"),
    "quotient of integers": (lambda x: x / 3, (_INTS,), "AsType Divide"),
    "mixed dtypes": (lambda x, y: x + y, (X, _INTS), "AsType Add"),
    "comparison of mixed dtypes": (lambda x, y: x > y, (X, _INTS), "AsType Greater"),
    "exclusive or": (lambda x, y: x ^ y, (BOOL, BOOL.flip(0)), "NotEqual"),
    "bits": (lambda x: ~x & 6, (_INTS,), "BitwiseInvert BitwiseAnd"),
    "negated bool": (lambda x: ~x, (BOOL,), "LogicalNot"),
    "clamp": (lambda x: x.clamp(-0.5, 0.25), (X,), "Clip"),
    "lower bound": (lambda x: x.clamp(min=2), (_INTS,), "Clip"),
    "where": (lambda x, y: torch.where(x > 0, x, y), (X, Y), "Greater Where"),
    "not a number": (lambda x: x.log().isnan(), (X,), "Log NotEqual"),
    "infinite": (lambda x: (1 / x).isinf(), (X,), "Reciprocal Abs Equal"),
    "remainder": (lambda x: x.remainder(0.3), (X,), "Remainder"),
    "remainder of halves": (
        lambda x, y: x.half().remainder(y.half()),
        (X, Y),
        "AsType AsType AsType AsType Remainder",
    ),
    "remainder of integers": (lambda x: x.remainder(-3), (_INTS,), "Remainder"),
    "quotient rounded down": (
        lambda x: (x & 15) // 3,
        (_INTS,),
        "BitwiseAnd AsType Divide Floor",
    ),
    "logarithm of a sum": (lambda x, y: torch.logaddexp(x * 9, y), (X, Y), "Multiply LogAddExp"),
    "truncated": (lambda x: (x * 7).trunc(), (X,), "Multiply Trunc"),
}


# torch's vector code has NaN for the GELU of infinity.
_REFERENCES: Final[dict[str, Function]] = {"gelu": lambda x: x * (1 + torch.erf(x / math.sqrt(2))) / 2}


@pytest.mark.parametrize("name", CASES)
def test_nodes(name: str) -> None:
    function, args, expected = CASES[name]
    special = 0 if "power" in name else len(args)
    run_case(function, args, expected, special=special, reference=_REFERENCES.get(name))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_special_values(precision: str) -> None:
    run_case(lambda x: (x.sin(), x.exp(), x.sign(), x.round(), x.floor()), (EDGES,), precision=precision)
    run_case(lambda x, y: (x.maximum(y), x.minimum(y), x.eq(y), x.lt(y), x / y), PAIRS, precision=precision)


def test_results_of_an_older_runtime() -> None:
    """It has no Trunc, which other nodes then compute."""
    compiled = run_case(lambda x: (x * 7).trunc(), (X,), runtime="1.4.1", special=1)
    assert "Trunc" not in operations(compiled.blobs()[0])


def test_outputs_need_no_conversion() -> None:
    """The runtime converts them: the last conversion to float32 is not in the blob."""
    run_case(lambda x: x * 2, (X,), "AsType Multiply", "fp16")
    run_case(lambda x: (x * 2).to(torch.int32), (X,), "Multiply")


def test_equal_constants_are_stored_once() -> None:
    """Numbers of one dtype, and weights with equal bytes, have one key."""
    first, second = torch.linspace(0, 1, 4), torch.linspace(0, 1, 4)
    compiled = run_case(lambda x: x * first + second, (X,))
    (delegate,) = compiled.delegates
    graph = read_blob(memoryview(delegate.blob_bytes()))
    assert len(delegate.named_data) < graph.numConstants


def test_large_integers_are_exact() -> None:
    run_case(lambda x: x + (2**40 + 1), (_INTS,), "Add")
    run_case(lambda x: torch.where(x > 0, x, 2**40 + 1), (_INTS,))


def test_ranges() -> None:
    run_case(lambda x: x + torch.arange(4), (X,))
    run_case(lambda x: x + torch.arange(3, 11, 2, dtype=torch.float32), (X,))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_quotients_of_integers(mode: str, dtype: torch.dtype) -> None:
    limits = torch.iinfo(dtype)
    values = torch.tensor(
        [limits.min + 1, -7, -1, 0, 1, 6, 7, 99, limits.max // 3, limits.max // 2], dtype=dtype
    )
    x, y = values.repeat_interleave(len(values)), values.repeat(len(values))
    y = torch.where(y == 0, 2, y)
    run_case(lambda x, y: torch.div(x, y, rounding_mode=mode), (x, y))


def test_rejected() -> None:
    left = rejected(lambda x: x.double() * 2, (X,))
    assert {(rule, message.partition(".")[0]) for _, rule, message in left} == {("dtype", "dtype float64")}


def test_numbers_beyond_float16_are_reported() -> None:
    from delegatec.diagnostics import DelegatecError

    with pytest.raises(DelegatecError, match="the scalar 70000") as error:
        run_case(lambda x: x * 70000.0, (X,), precision="fp16")
    assert [each.code for each in error.value.diagnostics] == ["DC406"]
    lowest = torch.finfo(torch.float32).min
    wanted = torch.where(X > 0, torch.finfo(torch.float16).min, X)
    run_case(lambda x: x.masked_fill(x > 0, lowest), (X,), precision="fp16", reference=lambda _: wanted)
