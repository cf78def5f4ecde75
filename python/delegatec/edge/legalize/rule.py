# SPDX-License-Identifier: Apache-2.0
"""The two forms of a decomposition, rules on nodes and functions on tensors, and tables of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraint import Constraint, SettingsT

# A function computes what an operator computes with others of torch, on tensors, and takes the operator's
# arguments. It is traced, once for each distinct call signature: slower than a rule, and easier to read. It
# returns NotImplemented where it does not apply; and, for an operator with several results, None in the place
# of one that it does not compute. Its own tensors must come from operators, such as `arange`.
Function = Callable[..., Any]
FunctionTable = Mapping[OpOverload, Function]


@dataclass(frozen=True)
class Refusal:
    """Why a call is not legal, or a rule not applicable.

    Attributes:
        rule: stable short id of what it breaks, such as "dtype".
        message: what is wrong, with the offending value.
        help: what would make it legal; empty if nothing would.
    """

    rule: str
    message: str
    help: str = ""


def first_broken(
    constraints: Iterable[Constraint[SettingsT]], node: Node, settings: SettingsT
) -> Refusal | None:
    """Say which of some constraints a call breaks first; None if it breaks none."""
    for constraint in constraints:
        broken = constraint.broken(node, settings)
        if broken is not None:
            return Refusal(constraint.rule, f"{broken}. {constraint.doc}", constraint.help)
    return None


# A rule computes what a node computes with other nodes, made by the builder in front of it. It returns the
# node that takes the place (one for each result of an operator with several, None for one that is not read),
# a refusal that says why it does not apply, or None where it just does not.
Rule = Callable[[Builder, Node], Any]
RuleTable = Mapping[OpOverload, Rule]


@dataclass(frozen=True)
class Rewrite:
    """A rule with what it requires, for a target that takes the parts of an operator and not the whole.

    Attributes:
        target: the overload that it rewrites.
        rule: does it.
        constraints: what a call must satisfy beyond the legality of its parts.
        note: what a reader of the table should know.
        computes: whether a delegate of such calls alone is worth a call; false for what only moves data.
    """

    target: OpOverload
    rule: Rule
    constraints: tuple[Constraint[object], ...] = ()
    note: str = ""
    computes: bool = True

    def __call__(self, builder: Builder, node: Node) -> Any:
        """Apply the rule, or say which constraint the call breaks."""
        return first_broken(self.constraints, node, None) or self.rule(builder, node)


Rewrites = Mapping[OpOverload, Sequence[Rewrite]]
"""Alternatives for each overload, in order of preference."""


def rewrites(*tables: Iterable[Rewrite]) -> dict[OpOverload, tuple[Rewrite, ...]]:
    """Index rewrites by their overload; those of one keep their order."""
    found: dict[OpOverload, tuple[Rewrite, ...]] = {}
    for rewrite in itertools.chain.from_iterable(tables):
        found[rewrite.target] = (*found.get(rewrite.target, ()), rewrite)
    return found


_Decomposition = TypeVar("_Decomposition", Rule, Function)


def merge(*tables: Mapping[OpOverload, _Decomposition]) -> dict[OpOverload, _Decomposition]:
    """One table of all; two decompositions of one operator are a mistake of ours."""
    merged: dict[OpOverload, _Decomposition] = {}
    for table in tables:
        for operator, decomposition in table.items():
            assert operator not in merged, f"two decompositions of {operator}"
            merged[operator] = decomposition
    return merged
