# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of sizes, and data-dependent scalars and sizes: in the stock runtime and in eager mode."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim, export
from torch.utils import _pytree as pytree

from delegatec.edge.testing import Function
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import parse_program
from delegatec.verify import Interpreter
from tests.oracle.oracle import OracleProgram

# Functions of a size from 2 to 16 -> the runtime's primitive that it needs.
SIZES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "add": (lambda n: n + 3, "add.Scalar"),
    "and": (lambda n: torch.sym_ite((n > 2) & (n < 9), n * 1, n + 4), "sym_ite.Scalar"),
    "ceil": (lambda n: math.ceil(n / 3), "ceil.Scalar"),
    "equal": (lambda n: torch.sym_ite(n == 5, n * 2, n + 4), "eq.Scalar"),
    "float": (lambda n: torch.sym_float(n) * 0.5, "sym_float.Scalar"),
    "floor": (lambda n: math.floor(n / 3), "neg.Scalar"),
    "floordiv": (lambda n: n // 3, "floordiv.Scalar"),
    "ge": (lambda n: torch.sym_ite(n >= 5, n * 2, n + 4), "ge.Scalar"),
    "gt": (lambda n: torch.sym_ite(n > 5, n * 2, n + 4), "gt.Scalar"),
    "le": (lambda n: torch.sym_ite(n <= 5, n * 2, n + 4), "le.Scalar"),
    "lt": (lambda n: torch.sym_ite(n < 5, n * 2, n + 4), "lt.Scalar"),
    "max": (lambda n: torch.sym_max(n, 5), "sym_max.Scalar"),
    "min": (lambda n: torch.sym_min(n, 5), "sym_min.Scalar"),
    "mod": (lambda n: n % 3, "mod.Scalar"),
    "mul": (lambda n: n * 3, "mul.Scalar"),
    "unequal": (lambda n: torch.sym_ite(n != 5, n * 2, n + 4), "sym_not.Scalar"),
    "or": (lambda n: torch.sym_ite((n < 3) | (n > 9), n * 1, n + 4), "sym_ite.Scalar"),
    "pow": (lambda n: n**3, "mul.Scalar"),
    "round": (lambda n: round(n / 4), "round.Scalar"),
    "sub": (lambda n: 5 - n, "sub.Scalar"),
    "truediv": (lambda n: n / 4, "truediv.Scalar"),
    "trunc": (lambda n: math.trunc(n / 3), "trunc.Scalar"),
}


def _pick(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    k = n.item()
    torch._check(k >= 0)
    torch._check(k <= 2)
    return x[: k + 1]


TABLE = torch.tensor([[1.0, 0, 2], [0, 0, 3]])

# Data-dependent functions -> calls; the first one is exported.
DATA: dict[str, tuple[Callable[..., Any], list[tuple[torch.Tensor, ...]]]] = {
    "item": (_pick, [(torch.arange(12.0).view(4, 3), torch.tensor(k)) for k in (1, 0, 2)]),
    "item_of_fractions": (lambda x: x * x.sum().item(), [(TABLE,), (TABLE - 3,)]),
    **{
        f"item_of_{str(dtype)[6:]}": (lambda x: x * x.sum().item(), [(TABLE.to(dtype),), (-TABLE.to(dtype),)])
        for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int8)
    },
    "nonzero": (lambda x: x.nonzero(), [(TABLE,), (TABLE * 0,), (TABLE + 1,)]),
    "masked_select": (lambda x: x.masked_select(x > 0) * 2, [(TABLE,), (TABLE - 9,), (TABLE + 1,)]),
    "index_by_mask": (lambda x: x[x[:, 0] > 0], [(TABLE,), (TABLE + 1,)]),
    "repeat": (
        lambda x, n: torch.repeat_interleave(x, n, output_size=4),
        [(torch.arange(3.0), torch.tensor(n)) for n in ([1, 1, 2], [0, 4, 0])],
    ),
}


def _compile(function: Callable[..., Any], inputs: tuple[Any, ...], shapes: Any = None) -> bytes:
    file = io.BytesIO()
    exported = export(Function(function), inputs, dynamic_shapes=shapes)
    write_program(lower({"forward": exported}).emitted, file)
    return file.getvalue()


def test_arithmetic_of_sizes() -> None:
    functions = [function for function, _ in SIZES.values()]

    def model(x: torch.Tensor) -> Any:
        return x + 1, *(function(x.shape[0]) for function in functions)

    pte = _compile(model, (torch.ones(4),), (({0: Dim("n", min=2, max=16)},),))
    (method,) = parse_program(pte).methods
    called = set(method.operators)
    assert {f"executorch_prim::{primitive}" for _, primitive in SIZES.values()} <= called
    runtime, ours = OracleProgram(pte), Interpreter(method)
    for n in (4, 2, 5, 10, 16):
        x = torch.ones(n)
        for _, *results in (runtime.run([x]), ours.run([x])):
            assert dict(zip(SIZES, results, strict=True)) == {key: f(n) for key, (f, _) in SIZES.items()}


@pytest.mark.parametrize("name", DATA)
def test_data_dependent_scalars(name: str) -> None:
    function, calls = DATA[name]
    pte = _compile(function, calls[0])
    runtime, ours = OracleProgram(pte), Interpreter(parse_program(pte).methods[0])
    for call in calls:
        (expected,) = pytree.tree_leaves(function(*call))
        for (result,) in (runtime.run(call), ours.run(list(call))):
            torch.testing.assert_close(result, expected)
