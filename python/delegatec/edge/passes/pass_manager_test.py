# SPDX-License-Identifier: Apache-2.0
"""Passes run in order until nothing changes."""

from __future__ import annotations

import torch

from delegatec.edge.convert import SIMPLIFY
from delegatec.edge.passes.pass_manager import run_passes
from delegatec.edge.printer import print_program
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import edge
from delegatec.edge.verifier import verify


def test_runs_until_nothing_changes() -> None:
    program, ran = edge(torch.relu, torch.ones(2)), []

    def first(_: EdgeProgram) -> bool:
        ran.append("first")
        return len(ran) < 3

    def second(_: EdgeProgram) -> bool:
        ran.append("second")
        return False

    run_passes(program, (first, second))
    assert ran == ["first", "second"] * 2


def test_stops_after_so_many_rounds() -> None:
    rounds = []
    run_passes(edge(torch.relu, torch.ones(2)), (lambda _: not rounds.append(1),), rounds=3)  # type: ignore[func-returns-value]
    assert len(rounds) == 3


def test_every_pass_leaves_a_valid_program_and_has_nothing_to_do_twice() -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    program = edge(layer, torch.ones(1, 4, 8), passes=())
    for _ in range(4):
        for apply in SIMPLIFY:
            apply(program)
            verify(program)
    text = print_program(program)
    assert not any(apply(program) for apply in SIMPLIFY)
    assert print_program(program) == text
