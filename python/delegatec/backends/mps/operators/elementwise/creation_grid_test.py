# SPDX-License-Identifier: Apache-2.0
"""Creation of tensors, which the edge program folds if possible, and conversions, against eager mode."""

from __future__ import annotations

import pytest
import torch

from delegatec.backends.common.testing import EDGES, Build, X
from delegatec.backends.mps.testing.grid import PRECISIONS, rejected, run_case, run_node
from delegatec.edge.builder import Builder

aten = torch.ops.aten

NODES: dict[str, tuple[Build, str]] = {
    "full": (lambda b, x: b.call(aten.full.default, [2, 3, 4], 2.5), "Full"),
    "full of NaN": (lambda b, x: b.call(aten.full.default, [2, 3, 4], float("nan")), "Full"),
    "full of infinity": (lambda b, x: b.call(aten.full.default, [4], float("-inf")), "Full"),
    "full of int64": (lambda b, x: b.call(aten.full.default, [4], 3, dtype=torch.int64), "Full Cast"),
    "full of bool": (lambda b, x: b.call(aten.full.default, [4], True, dtype=torch.bool), "Expand Cast"),
    "full of rank 0": (lambda b, x: b.call(aten.full.default, [], True, dtype=torch.bool), "Cast"),
    "full_like": (lambda b, x: b.call(aten.full_like.default, x, -1.5), "Full"),
    "full_like of int": (lambda b, x: b.call(aten.full_like.default, x, 7, dtype=torch.int32), "Full"),
    "full_like of bool": (lambda b, x: b.call(aten.full_like.default, x, True, dtype=torch.bool), "Expand"),
    "scalar_tensor": (lambda b, x: b.call(aten.scalar_tensor.default, 7.0), ""),
    "empty": (
        lambda b, x: b.call(
            aten.where.self, b.call(aten.isnan.default, x), b.call(aten.empty.memory_format, [4]), x
        ),
        "Full",
    ),
    "arange": (lambda b, x: b.call(aten.arange.start_step, 1, 9, 2, dtype=torch.float32), "Arange"),
    "arange of int64": (lambda b, x: b.call(aten.arange.start_step, 8, 0, -2), "Arange Cast"),
}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", NODES)
def test_node(name: str, precision: str) -> None:
    run_node(*NODES[name], precision)


DTYPES = (torch.float32, torch.float16, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)
FLOATS = torch.tensor([0.0, 1.0, -1.0, 2.75, -2.75, 100.0, -128.0, 127.0])


def test_full_of_a_large_integer() -> None:
    def build(b: Builder, x: torch.fx.Node) -> torch.fx.Node:
        large = b.call(aten.full.default, [2, 4], 2**40 + 1, dtype=torch.int64)
        return b.call(aten.sub.Scalar, large, 2**40)

    run_node(build, "Expand Sub")


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_conversion(source: torch.dtype, precision: str) -> None:
    def convert(x: torch.Tensor) -> list[torch.Tensor]:
        chosen = torch.where(x == x, x, x[:1])
        return [chosen.to(target) for target in DTYPES if target != source]

    run_case(convert, (FLOATS.to(source),), "", precision)


def test_conversion_of_bools() -> None:
    def convert(x: torch.Tensor) -> list[torch.Tensor]:
        chosen = torch.where(x > 0, x, x * 2.0)
        return [chosen.to(torch.bool), chosen.to(torch.float16)]

    run_case(convert, (EDGES,))


def test_large_integers_wrap() -> None:
    x = torch.tensor([2**33 + 5, -(2**33) - 5, 300])
    run_case(lambda a: (a + 1).to(torch.int32), (x,))
    run_case(lambda a: (a + 1).to(torch.int8), (x,))


@pytest.mark.parametrize("dtype", [torch.float64, torch.uint8, torch.bfloat16])
def test_conversion_to_unsupported_dtypes(dtype: torch.dtype) -> None:
    found = rejected(lambda a: (a + 1).to(dtype), (X,))
    assert [(operator, rule) for operator, rule, _ in found] == [("aten._to_copy.default", "dtype")]
