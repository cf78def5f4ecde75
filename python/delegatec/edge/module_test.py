# SPDX-License-Identifier: Apache-2.0
"""An edge program called like the method that it came from."""

from __future__ import annotations

import torch

from delegatec.edge.convert import to_edge
from delegatec.edge.module import EdgeModule


class Counter(torch.nn.Module):
    steps: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(2))

    def forward(self, x: torch.Tensor, *, pair: tuple[torch.Tensor, int]) -> dict[str, object]:
        self.steps += x
        pair[0].mul_(2)
        return {"sum": self.steps + pair[0], "pair": (pair[0].sin(), 3)}


def test_nested_arguments_and_state() -> None:
    x = torch.tensor([1.0, 2.0])
    exported = torch.export.export(Counter(), (x,), {"pair": (torch.ones(2), 5)})
    program = to_edge(exported)
    module, eager = EdgeModule(program), Counter()
    for step in range(2):
        ours, theirs = torch.full((2,), step + 0.5), torch.full((2,), step + 0.5)
        result, wanted = module(x, pair=(ours, 5)), eager(x, pair=(theirs, 5))
        assert result.keys() == wanted.keys() and result["pair"][1] == 3
        torch.testing.assert_close((result["sum"], result["pair"][0]), (wanted["sum"], wanted["pair"][0]))  # type: ignore[index]
        torch.testing.assert_close(ours, theirs)
    assert not next(iter(program.constants.values())).any()
