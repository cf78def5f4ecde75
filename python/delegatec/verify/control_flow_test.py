# SPDX-License-Identifier: Apache-2.0
"""Delegates in bodies of control flow: every iteration, and each branch, calls them with the right inputs."""

from __future__ import annotations

import io
from typing import Any

import torch
from torch import Tensor, nn
from torch._higher_order_ops import map as map_rows
from torch._higher_order_ops import while_loop
from torch.export import export
from torch.utils import _pytree as pytree

from delegatec.backends import builtin_backends
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import parse_program
from delegatec.verify import Interpreter


class Model(nn.Module):
    """Layers in branches, in a loop and in a map."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor, rows: Tensor) -> Any:
        def choose(y: Tensor) -> Any:
            return torch.cond(y.sum() > 0, lambda y: self.one(y), lambda y: self.two(y).sin(), (y,))

        n, y = while_loop(lambda n, y: n < 3, lambda n, y: (n + 1, choose(y) + 1), (torch.tensor(0), x))
        return n, y, map_rows(lambda row: self.one(row) + row.sin(), rows)


def test_delegates_in_bodies_agree_with_eager_mode() -> None:
    torch.manual_seed(0)
    model = Model().eval()
    calls = [(torch.randn(3, 4), torch.randn(5, 3, 4)) for _ in range(3)]
    lowered = lower({"forward": export(model, calls[0])}, "mps")
    assert len(lowered.emitted.methods[0].delegates) >= 4
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    interpreter = Interpreter(parse_program(file.getvalue()).methods[0], builtin_backends())
    for call in calls:
        with torch.no_grad():
            expected = pytree.tree_leaves(model(*call))
        for a, e in zip(interpreter.run(call), expected, strict=True):
            torch.testing.assert_close(a, e, atol=1e-5, rtol=1e-4)
