# SPDX-License-Identifier: Apache-2.0
"""Products, norms and distances: the operations that they become, their weights, and limits."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.common.testing import IMAGE, Function, X, eager, floats, ints
from delegatec.backends.mps.backend import MPS
from delegatec.backends.mps.blob import read_blob
from delegatec.backends.mps.testing import compile_module
from delegatec.backends.mps.testing.grid import PRECISIONS, rejected, run_case

aten = torch.ops.aten

INTEGERS = MPS.preserved_operators()
A, B = floats(3, 4), floats(4, 5, seed=1)
STACK, OTHER = floats(2, 3, 4), floats(2, 4, 5, seed=1)
NAN = torch.full((3, 4), math.nan)
VARIANCE = floats(6).abs() + 0.1

PRODUCTS: dict[str, tuple[Function, tuple[torch.Tensor, ...], str]] = {
    "addmm without bias": (
        lambda a, b, c: torch.addmm(a, b, c, beta=0, alpha=2),
        (torch.full((5,), float("nan")), A, B),
        "MatMul Mul Slice Abs Lt Full Where",  # from Slice on, an artificial use of the bias
    ),
    "dot": (torch.dot, (floats(4), floats(4, seed=1)), "View View MatMul View"),
    "addmv": (lambda a, b, c: torch.addmv(a, b, c, beta=0.5, alpha=2), (floats(3), A, floats(4)), ""),
    "stack by matrix": (torch.matmul, (STACK, B), "View MatMul View"),
    "stacks that broadcast": (torch.matmul, (floats(5, 1, 3, 4), OTHER), ""),
    "addmm, no product": (lambda a, b, c: torch.addmm(a, b, c, beta=2, alpha=0), (floats(5), NAN, B), ""),
    "addmm, nothing": (
        lambda a, b, c: torch.addmm(a, b, c, beta=0, alpha=0),
        (floats(5) * math.nan, NAN, B),
        "",
    ),
    "baddbmm": (lambda *a: torch.baddbmm(*a, beta=0.5, alpha=2), (floats(2, 3, 5), STACK, OTHER), ""),
    "addbmm": (torch.addbmm, (floats(3, 5), STACK, OTHER), ""),
    "einsum of heads": (
        lambda a, b: torch.einsum("bhid,bhjd->bhij", a, b),
        (floats(2, 3, 4, 5), floats(2, 3, 6, 5)),
        "",
    ),
    "bilinear": (F.bilinear, (A, floats(3, 5), floats(6, 4, 5), floats(6)), ""),
    "kron": (torch.kron, (floats(2, 3), B), ""),
    "linear of a vector": (F.linear, (floats(4), floats(5, 4), floats(5)), "Permute View Addmm View"),
    "linear with one output": (F.linear, (STACK, floats(4), torch.tensor(0.5)), ""),
    **{
        f"cdist, p = {p}": (lambda a, b, p=p: torch.cdist(a, b, p), (STACK, floats(2, 5, 4)), "")
        for p in (0.0, 1.0, 2.0, 2.5, math.inf)
    },
    "cdist of batches that broadcast": (torch.cdist, (floats(2, 1, 3, 4), floats(3, 5, 4, seed=1)), ""),
    "cdist of many rows": (torch.cdist, (floats(30, 4), floats(31, 4, seed=1)), ""),
    "pairwise_distance": (F.pairwise_distance, (A, floats(3, 4, seed=1)), ""),
}
NORMS: dict[str, tuple[Function, tuple[torch.Tensor, ...], str]] = {
    "layer_norm's statistics": (
        lambda x, w, b: torch.native_layer_norm(x, (3, 4), w, b, 1e-3),
        (X, floats(3, 4), floats(3, 4, seed=5)),
        "LayerNorm Add Rsqrt",
    ),
    "batch_norm in three dimensions": (
        lambda x, m, v: F.batch_norm(x, m, v),
        (floats(2, 6, 2, 3, 4), floats(6), VARIANCE),
        "View BatchNorm View",
    ),
    "group_norm without weight": (lambda x: F.group_norm(x, 2), (IMAGE,), "View LayerNorm View"),
    "instance_norm": (lambda x, w: F.instance_norm(x, weight=w, bias=-w), (IMAGE, floats(6)), ""),
    "local_response_norm": (lambda x: F.local_response_norm(x, 3), (IMAGE,), ""),
    "rms_norm": (lambda x, w: F.rms_norm(x, (8,), w), (IMAGE, floats(8)), ""),
    "normalize": (lambda x: (F.normalize(x), F.normalize(x, p=1.0)), (IMAGE,), ""),
    "weight_norm": (
        lambda x, v, g: F.linear(x, torch._weight_norm(v, g, 0)),
        (floats(2, 8), floats(5, 8), floats(5, 1)),
        "",
    ),
}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_product(name: str, precision: str) -> None:
    function, args, expected = PRODUCTS[name]
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


@pytest.mark.parametrize("name", NORMS)
def test_norm(name: str) -> None:
    function, args, _ = NORMS[name]
    run_case(*NORMS[name])
    if name != "local_response_norm":
        run_case(function, args, precision="fp16", rtol=6e-3, atol=3e-3)


def test_variances_beyond_float16() -> None:
    x = floats(2, 3, 64)
    x[..., 7] = 9000.0
    run_case(lambda x, w: F.layer_norm(x, (64,), w), (x, floats(64)), precision="fp16")


def test_an_epsilon_that_float16_does_not_have() -> None:
    def norm(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (8,), eps=1e-12)

    run_case(norm, (torch.full((2, 8), 0.1),), precision="fp16")


def test_a_half_with_weights_in_float32() -> None:
    x, w = floats(2, 8).half(), floats(8)
    run_case(lambda x, w: F.layer_norm(x, (8,), w, w), (x, w), rtol=1e-3, atol=1e-3)


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


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (4,)])
def test_linear_is_one_operation(shape: tuple[int, ...], bias: bool) -> None:
    module, x = torch.nn.Linear(4, 5, bias), floats(*shape)
    compiled = compile_module(module, (x,), preserve=[aten.linear.default])
    assert list(compiled.report.delegates[0].operators) == ["aten.linear.default"]
    for result, reference in zip(compiled(x), eager(module, (x,)), strict=True):
        torch.testing.assert_close(result, reference)
