# SPDX-License-Identifier: Apache-2.0
"""Top-k, sorting, and cumulative sums, against eager mode."""

from __future__ import annotations

import math

import pytest
import torch

from delegatec.backends.common.testing import Function, X, floats, ints
from delegatec.backends.mps.operators.grid import rejected, run_case
from delegatec.edge.legalize.rules import topk

NAN, INF = math.nan, math.inf
DISTINCT = torch.randperm(4 * 9 * 5, generator=torch.Generator().manual_seed(3)).view(4, 9, 5) - 70
ROUTER = floats(6, 32)
SPECIAL = torch.tensor(
    [[1.0, INF, NAN, -INF, 2.0, 0.5], [-INF, 3.0, -2.0, 9.0, INF, -1.0], [7.0, 1.0, 5.0, NAN, -3.0, 4.0]]
)
TIES = ints(4, 11, high=3)
LARGEST = torch.tensor([[2**63 - 1, -(2**63), 5, 0]])

TOP: dict[str, tuple[Function, tuple[torch.Tensor, ...]]] = {
    "one": (lambda x: x.topk(1), (ROUTER,)),
    "several": (lambda x: x.topk(4), (ROUTER,)),
    "smallest": (lambda x: x.topk(3, largest=False), (ROUTER,)),
    "values alone": (lambda x: x.topk(3).values * 2, (ROUTER,)),
    "positions alone": (lambda x: x.topk(3).indices + 1, (ROUTER,)),
    "another dimension": (lambda x: x.topk(3, dim=1), (DISTINCT,)),
    "first dimension": (lambda x: x.topk(2, dim=-3, largest=False), (DISTINCT.to(torch.int32),)),
    "rank 1": (lambda x: x.topk(2), (floats(7),)),
    "rank 0": (lambda x: (x + 1).topk(1), (torch.tensor(2.0),)),
    "all": (lambda x: x.topk(9, 1), (DISTINCT,)),
    "NaN and infinities": (lambda x: x.topk(4), (SPECIAL,)),
    "smallest of NaN and infinities": (lambda x: x.topk(6, largest=False), (SPECIAL,)),
    "the largest integers": (lambda x: (x.topk(4), x.topk(4, largest=False)), (LARGEST,)),
}
SORTS: dict[str, tuple[Function, tuple[torch.Tensor, ...]]] = {
    "sort": (lambda x: x.sort(), (ROUTER,)),
    "stable": (lambda x: x.sort(stable=True), (TIES,)),
    "stable, descending": (lambda x: x.sort(stable=True, descending=True, dim=0), (TIES,)),
    "NaN and infinities": (lambda x: x.sort(), (SPECIAL,)),
    "median": (lambda x: (x.median(1), x.median(), x.kthvalue(3, 0)), (ROUTER,)),
    "searchsorted": (lambda x: torch.bucketize(x, torch.linspace(-0.7, 0.7, 9)), (ROUTER,)),
    "argsort": (lambda x: x.argsort(1), (DISTINCT,)),
}
RUNNING: dict[str, tuple[Function, tuple[torch.Tensor, ...]]] = {
    "cumsum": (lambda x: (x.cumsum(0), x.cumsum(1), x.cumsum(-1)), (floats(3, 7, 5),)),
    "cumsum of ints": (lambda x: (x.cumsum(0), x.cumsum(1)), (ints(5, 8, dtype=torch.int32),)),
    "cumsum in int32": (lambda x: x.cumsum(1, dtype=torch.int32), (ints(5, 8),)),
    "cumsum of bools": (lambda x: (x > 1).cumsum(1), (ints(5, 8),)),
    "cumsum of infinities": (lambda x: x.cumsum(1), (SPECIAL,)),
    "cumsum of rank 0 and size 1": (lambda x: (x.sum().cumsum(0), x[:, :1].cumsum(1)), (X,)),
    "cumprod": (lambda x: x.cumprod(1), (floats(3, 7) * 2,)),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), (ROUTER,)),
    "cummax": (lambda x: x.cummax(1), (ROUTER,)),
}


@pytest.mark.parametrize("name", TOP)
def test_top(name: str) -> None:
    run_case(*TOP[name])


@pytest.mark.parametrize("name", TOP)
def test_top_in_rounds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topk, "_MOST_COMPARISONS", 0)
    run_case(*TOP[name])


@pytest.mark.parametrize("name", ["several", "another dimension", "NaN and infinities"])
def test_top_in_fp16(name: str) -> None:
    run_case(*TOP[name], precision="fp16")


@pytest.mark.parametrize("most", [2**24, 0])
@pytest.mark.parametrize("largest", [True, False])
def test_equal_elements_keep_their_order(largest: bool, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topk, "_MOST_COMPARISONS", most)
    x = torch.tensor([[1.0, INF, NAN, 1.0, INF, NAN, -INF, -INF]])
    wanted = [2, 5, 1, 4, 0, 3, 6, 7] if largest else [6, 7, 0, 3, 1, 4, 2, 5]
    run_case(
        lambda x: x.topk(8, largest=largest).indices + 0, (x,), reference=lambda x: torch.tensor([wanted])
    )


def test_large_k_of_long_rows_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topk, "_MOST_COMPARISONS", 32 * 32)
    assert rejected(lambda x: x.topk(17).values + 1, (ROUTER[:1],)) == []
    ((operator, rule, message),) = rejected(lambda x: (x + 1).topk(17).values * 2, (ROUTER,))
    assert (operator, rule) == ("aten.topk.default", "argument")
    assert message.startswith("17 of 32 elements in 6 rows")


@pytest.mark.parametrize("name", SORTS)
def test_sort(name: str) -> None:
    run_case(*SORTS[name])


@pytest.mark.parametrize("name", RUNNING)
def test_running(name: str) -> None:
    run_case(*RUNNING[name])


def test_cumulative_sum_of_float16_is_computed_in_float32() -> None:
    run_case(lambda x: x.cumsum(1), (torch.full((2, 3000), 1.0),), precision="fp16", rtol=0, atol=0)
