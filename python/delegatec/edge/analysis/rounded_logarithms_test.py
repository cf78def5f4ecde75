# SPDX-License-Identifier: Apache-2.0
"""Logarithms of integers that are rounded, and what is between."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from delegatec.edge.analysis.rounded_logarithms import rounded_logarithms
from delegatec.edge.testing import edge

aten = torch.ops.aten


def _names(function: object, *inputs: Tensor) -> list[str]:
    program = edge(function, *inputs, passes=())  # type: ignore[arg-type]
    found = rounded_logarithms(program)
    return [node.target._opname for node in program.graph.nodes if node in found]


def _buckets(distance: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of a table for distances in steps that double, and the logarithms."""
    logarithm = torch.log(distance.float() / 8)
    return table[(8 + logarithm / math.log(16) * 8).long().clamp(max=15)], logarithm.exp() * 2


def test_buckets_of_positions() -> None:
    names = _names(_buckets, torch.arange(1, 60), torch.rand(16, 2))
    assert names == ["log", "div", "mul", "add", "_to_copy"]


def test_others() -> None:
    positions, x = torch.arange(1, 9), torch.rand(8)
    assert _names(lambda x: x.log().floor(), x) == []
    assert _names(lambda p: p.float().log() * 2, positions) == []
    assert _names(lambda p, x: p.float().log() * x.floor(), positions, x) == []
    assert _names(lambda p: p.float().log().view(2, 4).sum(0).floor(), positions) == []
    assert _names(lambda p: p.float().log().view(2, 4).floor(), positions) == ["log", "view", "floor"]
    assert _names(lambda p: p.float().add(1).log2().round(), positions) == ["log2", "round"]
