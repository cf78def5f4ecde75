# SPDX-License-Identifier: Apache-2.0
"""Rejected nodes, and the reasons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.common.testing import Call, eager
from delegatec.backends.mps.operators.docs import render_markdown
from delegatec.backends.mps.operators.rewrites import REWRITES
from delegatec.backends.mps.operators.table import TABLE
from delegatec.backends.mps.testing import compile_module, compile_program
from delegatec.edge import to_edge

IMAGE = torch.rand(1, 2, 6, 6)
X = torch.rand(3, 4)
BIG = torch.rand(1 << 20)


REJECTED: list[tuple[str, Callable[..., Any], tuple[torch.Tensor, ...], str, str, str]] = [
    ("noise", lambda x: x + torch.rand(4) * 0, (X,), "fp32", "operator", "not support aten.rand.default"),
    ("double", lambda x: x.exp(), (X.double(),), "fp32", "dtype", "dtype float64"),
    ("uint8", lambda x: x + 1, (X.to(torch.uint8),), "fp32", "dtype", "dtype uint8"),
    ("bfloat16", lambda x: x.exp(), (X.bfloat16(),), "fp32", "dtype", "dtype bfloat16"),
    ("power of int tensors", torch.pow, (torch.arange(4),) * 2, "fp32", "dtype", "result of dtype int64"),
    ("int matmul", torch.mm, (torch.ones(2, 2, dtype=torch.int32),) * 2, "fp32", "dtype", "int32"),
    ("unordered bounds", lambda x: torch.logit(x, 0.7), (X,), "fp32", "argument", "eps is 0.7"),
    (
        "channels",
        F.conv1d,
        (torch.rand(1, 1, 4), torch.rand(2**16 + 1, 1, 1)),
        "fp32",
        "size",
        "65537 output channels",
    ),
    ("large pad", lambda x: F.pad(x, (1, 1), value=2**25 + 1), (torch.arange(4),), "fp32", "argument", "is"),
    ("sums at many positions", lambda x: x.put(torch.arange(9) % 2, x.view(-1)[:9], True), (BIG,), "fp32",
     "accumulate", "9437184 pairs"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "args", "precision", "rule", "message"),
    [r[1:] for r in REJECTED],
    ids=[r[0] for r in REJECTED],
)
def test_rejected_with_a_reason(
    function: Callable[..., Any], args: tuple[torch.Tensor, ...], precision: str, rule: str, message: str
) -> None:
    module = Call(function)
    compiled = compile_module(module, args, precision)
    reasons = [(r.rule, r.message) for r in compiled.report.rejections if r.rule != "trivial"]
    assert any(found == rule and message in text for found, text in reasons), reasons
    assert all(r.location is not None for r in compiled.report.rejections)
    for result, wanted in zip(compiled(*args), eager(module, args), strict=True):
        torch.testing.assert_close(result, wanted)


def test_dynamic_shapes_are_rejected() -> None:
    size = torch.export.Dim("size", min=1, max=8)
    exported = torch.export.export(Call(torch.exp), (X,), dynamic_shapes=(({0: size},),))
    compiled = compile_program(to_edge(exported))
    assert {r.rule for r in compiled.report.rejections} == {"dynamic-shape"}
    assert not compiled.delegates


def test_bodies_of_control_flow_are_delegated() -> None:
    def function(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 3, torch.exp, torch.sin, (x,))

    compiled = compile_module(Call(function), (X,))
    (left,) = compiled.report.rejections
    assert (left.operator, left.rule) == ("cond", "operator")
    assert "its bodies are partitioned separately" in left.message
    assert len(compiled.delegates) == 3


def test_components_that_only_move_data_are_rejected() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x.exp(), y.transpose(0, 1).unsqueeze(0)

    compiled = compile_module(Call(function), (X, X))
    assert [r.rule for r in compiled.report.rejections] == ["trivial"] * len(compiled.report.rejections)
    assert [list(d.operators) for d in compiled.report.delegates] == [["aten.exp.default"]]
    assert compile_module(Call(lambda x: x.transpose(0, 1)), (X,)).delegates == []


def test_a_moved_operand_of_a_rejected_node_does_not_split() -> None:
    # If the slice were delegated, the integer product that uses it would push all later nodes into a
    # second delegate.
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x.exp() + torch.mm(y[1:], y).float().mean()).sin()

    args = (X, torch.arange(9).view(3, 3))
    compiled = compile_module(Call(function), args)
    assert len(compiled.delegates) == 1
    for result, wanted in zip(compiled(*args), eager(Call(function), args), strict=True):
        torch.testing.assert_close(result, wanted)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.group_norm(x, 2, x[0, :, 0, 0], x[0, :, 1, 1]),
        lambda x: x.roll((1, -2), (2, 3)),
        lambda x: F.batch_norm(x, None, None, x[0, :, 0, 0], training=True),
        lambda x: F.instance_norm(x) + x.std(1, keepdim=True),
        lambda x: F.pixel_unshuffle(x, 2),
        lambda x: x.select_scatter(x[:, 1], 1, -2),
        lambda x: torch.zeros_like(x).copy_(x[:, :1]),
        lambda x: torch.zeros_like(x).fill_(x[0, 0, 0, 0]),
    ],
)
def test_composites_do_not_split(function: Callable[..., Any]) -> None:
    module, args = Call(lambda x: function(x.exp()).sin()), (torch.rand(1, 2, 6, 6),)
    compiled = compile_module(module, args)
    assert len(compiled.delegates) == 1 and not compiled.report.rejections
    for result, wanted in zip(compiled(*args), eager(module, args), strict=True):
        torch.testing.assert_close(result, wanted)


def test_the_page_names_every_row_and_rewrite() -> None:
    rows, rewritten = render_markdown().split("\n## Rewritten\n")
    assert [target for target in TABLE.rows if f"\n| `{target}` |" not in rows] == []
    assert [target for target in REWRITES if f"\n| `{target}` |" not in rewritten] == []
