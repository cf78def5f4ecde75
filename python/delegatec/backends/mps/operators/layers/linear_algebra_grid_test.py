# SPDX-License-Identifier: Apache-2.0
"""Products in their many forms, and distances, against eager mode."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.common.testing import Function, floats, ints
from delegatec.backends.mps.backend import MPS
from delegatec.backends.mps.blob import read_blob
from delegatec.backends.mps.operators.grid import PRECISIONS, rejected, run_case

INTEGERS = MPS.preserved_operators()
A, B, SQUARE = floats(3, 4), floats(4, 5, seed=1), floats(4, 4, seed=2)
STACK, OTHER = floats(2, 3, 4), floats(2, 4, 5, seed=1)
NAN = torch.full((3, 4), math.nan)

CASES: dict[str, tuple[Function, tuple[torch.Tensor, ...], str]] = {
    "mv": (torch.mv, (A, floats(4)), "View MatMul View"),
    "dot": (torch.dot, (floats(4), floats(4, seed=1)), "View View MatMul View"),
    "addmv": (lambda a, b, c: torch.addmv(a, b, c, beta=0.5, alpha=2), (floats(3), A, floats(4)), ""),
    "vector by vector": (torch.matmul, (floats(4), floats(4, seed=1)), ""),
    "vector by matrix": (torch.matmul, (floats(4), B), ""),
    "vector by stack": (torch.matmul, (floats(4), OTHER), ""),
    "stack by vector": (torch.matmul, (STACK, floats(4)), ""),
    "stack by matrix": (torch.matmul, (STACK, B), "View MatMul View"),
    "stacks that broadcast": (torch.matmul, (floats(5, 1, 3, 4), OTHER), ""),
    "stack of higher rank": (torch.matmul, (floats(5, 2, 3, 4), OTHER), ""),
    "addmm, bias of one scalar": (torch.addmm, (floats(1), A, B), "Addmm"),
    "addmm, bias of a column": (torch.addmm, (floats(3, 1), A, B), "Addmm"),
    "addmm, bias of rank 0": (torch.addmm, (torch.tensor(0.3), A, B), "Addmm"),
    "addmm, whole bias": (torch.addmm, (floats(3, 5), A, B), "Addmm"),
    "addmm, no product": (lambda a, b, c: torch.addmm(a, b, c, beta=2, alpha=0), (floats(5), NAN, B), ""),
    "addmm, nothing": (
        lambda a, b, c: torch.addmm(a, b, c, beta=0, alpha=0),
        (torch.full((5,), math.nan), NAN, B),
        "",
    ),
    "baddbmm": (
        lambda a, b, c: torch.baddbmm(a, b, c, beta=0.5, alpha=2),
        (floats(2, 3, 5), STACK, OTHER),
        "",
    ),
    "addbmm": (torch.addbmm, (floats(3, 5), STACK, OTHER), ""),
    "addr": (torch.addr, (floats(3, 5), floats(3), floats(5)), ""),
    "outer": (torch.outer, (floats(3), floats(5)), ""),
    "einsum of heads": (
        lambda a, b: torch.einsum("bhid,bhjd->bhij", a, b),
        (floats(2, 3, 4, 5), floats(2, 3, 6, 5)),
        "",
    ),
    "einsum by a weight of rank 3": (
        lambda a, b: torch.einsum("bid,djk->bijk", a, b),
        (STACK, floats(4, 6, 5)),
        "",
    ),
    "tensordot": (lambda a, b: torch.tensordot(a, b, 2), (STACK, floats(3, 4, 5)), ""),
    "bilinear": (F.bilinear, (A, floats(3, 5), floats(6, 4, 5), floats(6)), ""),
    "kron": (torch.kron, (floats(2, 3), B), ""),
    "power of a matrix": (lambda a: torch.linalg.matrix_power(a, 3), (SQUARE,), ""),
    "multi_dot": (lambda a, b, c: torch.linalg.multi_dot([a, b, c]), (A, B, floats(5, 2)), ""),
    "linear of a vector": (F.linear, (floats(4), floats(5, 4), floats(5)), "Permute View Addmm View"),
    "linear with one output": (F.linear, (STACK, floats(4), torch.tensor(0.5)), ""),
    **{
        f"cdist, p = {p}": (lambda a, b, p=p: torch.cdist(a, b, p), (STACK, floats(2, 5, 4)), "")
        for p in (0.0, 1.0, 2.0, 2.5, math.inf)
    },
    "cdist of batches that broadcast": (torch.cdist, (floats(2, 1, 3, 4), floats(3, 5, 4, seed=1)), ""),
    "cdist of many rows": (torch.cdist, (floats(30, 4), floats(31, 4, seed=1)), ""),
    "pdist": (torch.pdist, (floats(5, 4),), ""),
    "cosine_similarity": (F.cosine_similarity, (A, floats(3, 4, seed=1)), ""),
    "pairwise_distance": (F.pairwise_distance, (A, floats(3, 4, seed=1)), ""),
}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
def test_product(name: str, precision: str) -> None:
    function, args, expected = CASES[name]
    run_case(
        function,
        args,
        expected if precision == "fp32" else "",
        precision,
        preserve=INTEGERS,
        # Eager mode has no distances in float16, and reads NaN in float16 where it does not in float32.
        reference=(lambda *a: function(*(t.float() for t in a)))
        if "dist" in name or ", no" in name
        else None,
        **({"rtol": 1e-2, "atol": 5e-3} if precision == "fp16" else {}),
    )


def test_weights_are_stored_as_in_the_model() -> None:
    """No product needs a derived weight: the blob contains the model's bytes once."""
    module = nn.Sequential(nn.Linear(16, 24), nn.Conv1d(5, 5, 1), nn.Linear(24, 8))
    compiled = run_case(lambda x: module(x), (floats(2, 5, 16),), preserve=INTEGERS)
    graph = read_blob(memoryview(compiled.blobs()[0])).graph
    sizes = [graph.mpsValues[id].constantBufferSize for id in graph.constantIds]
    assert sum(sizes) == sum(p.numel() * 4 for p in module.parameters())


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 2.5, math.inf])
def test_distances_of_special_values(p: float) -> None:
    run_case(lambda a, b: torch.cdist(a, b, p), (STACK, floats(2, 5, 4)), special=2)
    run_case(lambda x: torch.pdist(x, p), (floats(5, 4),), special=1)


def test_distances_do_not_overflow_in_float16() -> None:
    x, y = floats(3, 4) * 1000, floats(5, 4, seed=1) * 1000
    run_case(lambda a, b: torch.cdist(a, b), (x, y), precision="fp16", preserve=INTEGERS, rtol=1e-2,
             reference=lambda a, b: torch.cdist(a.float(), b.float()))  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "length", "taken"), [(16, 32767, False), (15, 32767, True), (16, 32766, True)]
)
def test_long_sums(rows: int, length: int, taken: bool) -> None:
    args = (torch.zeros(rows, length), torch.zeros(length, 16))
    assert [rule for _, rule, _ in rejected(torch.mm, args)] == ([] if taken else ["size"])
    stack = [each.unsqueeze(0) for each in args]
    assert [rule for _, rule, _ in rejected(torch.bmm, (stack[0], stack[1]))] == ([] if taken else ["size"])


def test_integers_are_rejected() -> None:
    ((operator, rule, message),) = rejected(torch.mm, (ints(2, 3), ints(3, 2)))
    assert (operator, rule, message.split(".")[0]) == ("aten.mm.default", "dtype", "operand of dtype int64")
