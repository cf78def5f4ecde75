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

# A function computes an operator by others of torch, on tensors, and has the operator's arguments. It is
# traced once per distinct call signature: slower than a rule, and easier to read. It returns NotImplemented
# if it does not apply; and, for an operator with several results, None for one that it does not compute. Its
# own tensors must be created by operators, such as `arange`.
Function = Callable[..., Any]
FunctionTable = Mapping[OpOverload, Function]


@dataclass(frozen=True)
class Refusal:
    """Why a call is not legal, or a rule not applicable.

    Attributes:
        rule: stable short id of the violated rule, such as "dtype".
        message: the violation, with the offending value.
        help: how to make it legal; empty if impossible.
        rewritten: the call of a rewrite that is not legal; empty if it is the call itself.
    """

    rule: str
    message: str
    help: str = ""
    rewritten: str = ""


def first_broken(
    constraints: Iterable[Constraint[SettingsT]], node: Node, settings: SettingsT
) -> Refusal | None:
    """Returns the first violated constraint, if any."""
    for constraint in constraints:
        broken = constraint.broken(node, settings)
        if broken is not None:
            return Refusal(constraint.rule, f"{broken}. {constraint.doc}", constraint.help)
    return None


# A rule computes a node by other nodes, which the builder inserts before it. It returns the replacement (one
# node per result, None for an unused one), a refusal with the reason why it does not apply, or None if it
# does not apply.
Rule = Callable[[Builder, Node], Any]
RuleTable = Mapping[OpOverload, Rule]


@dataclass(frozen=True)
class Rewrite:
    """A rule with constraints, for a target that supports an operator only decomposed.

    Attributes:
        target: the overload that it rewrites.
        rule: the rule.
        constraints: the conditions on a call, besides the legality of the emitted calls.
        note: for readers of the table.
        computes: whether a delegate of such calls alone is worth a call; false if it only moves data.
        preserved: whether the call must not be decomposed before partitioning: the rule has a better form.
    """

    target: OpOverload
    rule: Rule
    constraints: tuple[Constraint[object], ...] = ()
    note: str = ""
    computes: bool = True
    preserved: bool = False

    def __call__(self, builder: Builder, node: Node) -> Any:
        """Applies the rule, or returns the violated constraint."""
        return first_broken(self.constraints, node, None) or self.rule(builder, node)


Rewrites = Mapping[OpOverload, Sequence[Rewrite]]
"""Alternatives per overload, in order of preference."""


def preserved(rewrites: Rewrites) -> frozenset[OpOverload]:
    """Returns the operators that must not be decomposed before partitioning."""
    return frozenset(
        target for target, several in rewrites.items() if any(each.preserved for each in several)
    )


def rewrites(*tables: Iterable[Rewrite]) -> dict[OpOverload, tuple[Rewrite, ...]]:
    """Indexes rewrites by their overload, in order."""
    found: dict[OpOverload, tuple[Rewrite, ...]] = {}
    for rewrite in itertools.chain.from_iterable(tables):
        found[rewrite.target] = (*found.get(rewrite.target, ()), rewrite)
    return found


_Decomposition = TypeVar("_Decomposition", Rule, Function)


def merge(*tables: Mapping[OpOverload, _Decomposition]) -> dict[OpOverload, _Decomposition]:
    """Merges tables, which must not overlap."""
    merged: dict[OpOverload, _Decomposition] = {}
    for table in tables:
        for operator, decomposition in table.items():
            assert operator not in merged, f"two decompositions of {operator}"
            merged[operator] = decomposition
    return merged
