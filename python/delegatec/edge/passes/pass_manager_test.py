# SPDX-License-Identifier: Apache-2.0
"""Passes run in order until nothing changes, and observers are called after each."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from delegatec.edge.builder import Builder
from delegatec.edge.convert import SIMPLIFY
from delegatec.edge.passes.pass_manager import observed_passes, run_pass, run_passes, verify_after
from delegatec.edge.printer import print_program
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import edge
from delegatec.edge.verifier import verify


def steady(_: EdgeProgram) -> bool:
    return False


def restless(_: EdgeProgram) -> bool:
    return True


def breaking(program: EdgeProgram) -> bool:
    del program.graph.find_nodes(op="call_function", target=torch.ops.aten.relu.default)[0].meta["val"]
    return True


def test_runs_until_nothing_changes() -> None:
    program, ran = edge(torch.relu, torch.ones(2)), []

    def first(_: EdgeProgram) -> bool:
        ran.append("first")
        return len(ran) < 3

    def second(_: EdgeProgram) -> bool:
        ran.append("second")
        return False

    run_passes(program, (first, second))
    assert ran == ["first", "second", "first"]


def test_passes_that_do_not_converge_are_named() -> None:
    with pytest.raises(AssertionError, match=r"still changes after 32 iterations, by restless$"):
        run_passes(edge(torch.relu, torch.ones(2)), (steady, restless))


def test_nodes_that_no_rule_creates_have_the_name_of_the_pass() -> None:
    def negate(program: EdgeProgram) -> bool:
        output = program.output_node()
        (result,) = output.all_input_nodes
        negated = Builder(program).at(output).call(torch.ops.aten.neg.default, result)
        output.replace_input_with(result, negated)
        return True

    program = edge(torch.relu, torch.ones(2))
    run_pass(program, negate)
    lines = print_program(program, rules=True).splitlines()
    assert lines[2].endswith(" by negate") and " by " not in lines[1]


def test_an_observer_is_called_after_each_pass() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))  # type: ignore[no-any-return]

    program, told = edge(model, torch.ones(2)), []
    with observed_passes(lambda name, part, changed: told.append((name, part.method, changed))):
        run_pass(program, partial(restless))
        run_passes(program, (steady,))
    run_pass(program, restless)
    assert told == [
        ("restless", "forward", True),
        ("steady", "forward", False),
        ("steady", "forward.true_graph_0", False),
        ("steady", "forward.false_graph_0", False),
    ]


def test_the_pass_that_breaks_a_program_is_named() -> None:
    program = edge(torch.relu, torch.ones(2))
    with observed_passes(verify_after):
        run_pass(program, restless)
        with pytest.raises(AssertionError, match=r"^invalid program after breaking: .*relu has no meta"):
            run_pass(program, breaking)


def test_every_pass_is_valid_and_idempotent() -> None:
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
