# SPDX-License-Identifier: Apache-2.0
"""What a decomposition rule is, and the table of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.builder import Builder

# A rule computes what a node computes with other nodes, made by the builder in front of it. It returns the
# node that takes the place (one for each result of an operator with several), or None where it does not
# apply.
Rule = Callable[[Builder, Node], Node | Sequence[Node] | None]
RuleTable = Mapping[OpOverload, Rule]


def merge(*tables: RuleTable) -> dict[OpOverload, Rule]:
    """One table of all; two rules for one operator are a mistake of ours."""
    merged: dict[OpOverload, Rule] = {}
    for table in tables:
        for operator, rule in table.items():
            assert operator not in merged, f"two decompositions of {operator}"
            merged[operator] = rule
    return merged
