# SPDX-License-Identifier: Apache-2.0
"""Rules that have no effect on a model are reported."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from delegatec.delegation import PartitionRules
from delegatec.delegation.partitioning.rule_check import RuleCheck
from delegatec.delegation.partitioning.rules_test import Model, X
from delegatec.delegation.testing import edge
from delegatec.diagnostics import Diagnostic


class Dropped(torch.nn.Module):
    """Calls an operator that is removed completely."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, training=False).sin()


def _after(rules: PartitionRules, module: torch.nn.Module, *operators: str) -> list[Diagnostic]:
    check = RuleCheck(rules, [edge(module, (X,))])
    assert not check.problems()
    return check.problems_after(operators)


def test_wrong_rules_are_reported_together() -> None:
    rules = PartitionRules(
        allow_operators=("aten.add.Tensr", "aten.*"),
        block_operators=("aten.sni", "nothing.here", "linear", "nn.Linear"),
        allow_modules=("blocks.?",),
        block_modules=("block.1",),
        minimum_nodes=0,
        maximum_delegates=0,
    )
    problems = RuleCheck(rules, [edge(Model(), (X,))]).problems()
    assert {problem.code for problem in problems} == {"DC412"}
    assert [problem.message for problem in problems] == [
        'allow_operators names "aten.add.Tensr": no such operator',
        'block_operators names "aten.sni": no such operator',
        'block_operators names "nothing.here": no such operator',
        'block_operators names "linear": no such operator',
        'block_operators names "nn.Linear": no such operator',
        'block_modules names "block.1": no operator of the model belongs to it',
        "minimum_nodes cannot be 0",
        "maximum_delegates cannot be 0",
    ]
    assert problems[0].expected == "aten.add.Tensor"
    assert problems[1].help == "did you mean 'aten.sin'?"
    assert problems[2].expected.startswith("an operator of the model: aten.add, aten.addmm, ")
    assert problems[3].help == problems[4].help == "did you mean 'aten.linear'?"
    assert "blocks.1" in problems[5].expected
    assert 'backend "portable"' in problems[7].help


@pytest.mark.parametrize("option", ["allow_operators", "block_operators"])
@pytest.mark.parametrize("name", ["aten.conv2d", "aten.tan*", "cond", "aten.sin.out"])
def test_operators_that_the_model_lacks(option: str, name: str) -> None:
    names: dict[str, Any] = {option: (name, "aten.cos")}
    (problem,) = _after(PartitionRules(**names), Model(), "aten.cos.default")
    assert (problem.code, problem.message) == (
        "DC412",
        f'{option} names "{name}": the model has no such operator',
    )


def test_operators_that_appear_on_the_way() -> None:
    rules = PartitionRules(block_operators=("aten.matmul",))
    assert len(_after(rules, Model())) == 1
    assert not _after(rules, Model(), "aten.matmul.default")


def test_operators_of_which_nothing_is_left() -> None:
    assert not _after(PartitionRules(block_operators=("aten.dropout",)), Dropped())
    assert not _after(PartitionRules(allow_operators=("aten.dropout", "aten.sin")), Dropped())
    (problem,) = _after(PartitionRules(allow_operators=("aten.dropout",)), Dropped())
    assert problem.message == "allow_operators allows nothing: nothing is left of aten.dropout"
    assert problem.expected.endswith("aten.sin")
