# SPDX-License-Identifier: Apache-2.0
"""Test helpers: models as programs of channels-last operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.rewrites import REWRITES
from delegatec.edge.legalize.engine import Legalizer
from delegatec.edge.legalize.rule import Refusal, Rule, preserved, rewrites
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import called, edge

aten = torch.ops.aten

TABLE: Final = rewrites(REWRITES)


class _ChannelsLast:
    """A target without the operators of ATen that have a rewrite."""

    full = False

    def refusal(self, node: Node, facts: Facts) -> Refusal | None:
        """See `Target.refusal`."""
        target: Any = node.target
        return Refusal("operator", "") if target in TABLE and target.namespace == "aten" else None

    def rules(self, node: Node) -> Sequence[Rule]:
        """See `Target.rules`."""
        target: Any = node.target
        return TABLE.get(target, ())


def channels_last(model: Callable[..., Any], *inputs: Any, dynamic_shapes: Any = None) -> EdgeProgram:
    """Returns a program with channels-last operators, before its layout is optimized."""
    program = edge(model, *inputs, dynamic_shapes=dynamic_shapes, preserve=preserved(TABLE))
    builder = Builder(program, Facts(program.fixed_constants()))
    Legalizer(builder, _ChannelsLast()).run()
    program.graph.eliminate_dead_code()
    program.erase_unused_placeholders()
    return program


def permutations(program: EdgeProgram) -> int:
    """Counts the permutations."""
    return called(program).count(aten.permute.default)
