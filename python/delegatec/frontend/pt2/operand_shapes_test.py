# SPDX-License-Identifier: Apache-2.0
"""Operands of shapes that eager mode rejects are found in an archive; those that it accepts are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from delegatec.diagnostics import DelegatecError
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.frontend.pt2.testing import PROGRAM, edited

F = torch.nn.functional

X = torch.ones(1, 2, 4, 4)
GOOD = torch.ones(4)


class Call(torch.nn.Module):
    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, operand: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        return self.function(x, operand), other + 1


CALLS: dict[str, tuple[Callable[..., Any], Tensor, Tensor]] = {
    "conv1d": (lambda x, b: F.conv1d(x[0], torch.ones(4, 4, 1), b), GOOD, torch.ones(2)),
    "conv2d": (lambda x, b: F.conv2d(x, torch.ones(4, 1, 3, 3), b, groups=2), GOOD, X),
    "conv2d same": (lambda x, b: F.conv2d(x, torch.ones(4, 2, 3, 3), b, padding="same"), GOOD, X),
    "conv3d": (lambda x, b: F.conv3d(x[None], torch.ones(4, 1, 1, 1, 1), b), GOOD, torch.ones(1)),
    "transposed": (lambda x, b: F.conv_transpose2d(x, torch.ones(2, 2, 3, 3), b, groups=2), GOOD, X),
    "attention": (
        lambda x, m: F.scaled_dot_product_attention(x, x, x, m),
        torch.ones(4, 4),
        torch.ones(3, 3),
    ),
    "slice": (lambda x, s: torch.slice_scatter(x, s, 2, 0, 4, 2), X[:, :, :2], X[:, :1]),
    "selection": (lambda x, s: torch.select_scatter(x, s, -1, 3), X[..., 0], X[..., :1]),
    "group norm": (
        lambda x, w: torch.ops.aten.native_group_norm(x, w, w, 1, 2, 16, 2, 1e-5)[0],
        torch.ones(2),
        torch.ones(1, 2),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_shapes_of_operands_are_checked(tmp_path: Path, name: str) -> None:
    function, good, bad = CALLS[name]
    with pytest.raises(RuntimeError):
        function(X, bad)
    path = tmp_path / "good.pt2"
    archive.save(export(Model(Call(function), (X, good, bad)), samples=0), str(path))
    assert archive.load(str(path)).methods

    def exchange(document: Any) -> None:
        graph = document["graph_module"]["graph"]
        nodes = json.dumps(graph["nodes"])
        graph["nodes"] = json.loads(nodes.replace('"operand"', '"other"'))

    with pytest.raises(DelegatecError, match=r"DC120.*rejects the operands of"):
        archive.load(edited(path, PROGRAM, exchange))
