# SPDX-License-Identifier: Apache-2.0
"""Checks that partition rules have an effect on a model."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import Final

import torch

from delegatec.delegation.partitioning.rules import (
    PartitionRules,
    module_paths,
    names_of_call,
    names_of_operator,
    names_of_origins,
)
from delegatec.diagnostics import Diagnostic
from delegatec.edge.program import EdgeProgram

# The maximum number of names that a message lists.
_MOST: Final = 8
# The minimum similarity of a name and its misspelling.
_ALIKE: Final = 0.65


class RuleCheck:
    """Checks rules before and after delegation.

    A name must match something in one of the methods: a call of the exported program, regardless of its
    decomposition, or a node of the edge program. Decompositions and preparations for backends add nodes
    during lowering; the check sees them afterwards, among the delegated and the other operators.

    Args:
        rules: the rules.
        programs: all methods of the model, before delegation.
    """

    def __init__(self, rules: PartitionRules, programs: Iterable[EdgeProgram]) -> None:
        self._rules = rules
        self._nodes: set[str] = set()
        self._calls: set[str] = set()
        self._modules: set[str] = set()
        for program in programs if rules != PartitionRules() else ():
            self._calls |= names_of_origins(program.origins)
            for part in program.walk():
                for node in part.graph.nodes:
                    self._modules.update(module_paths(node))
                    if node.op == "call_function":
                        self._nodes |= names_of_call(node, part.origins)

    def problems(self) -> list[Diagnostic]:
        """Returns DC412 for each module that matches nothing, operator unknown to torch, and wrong count."""
        found = [
            self._unknown_operator(option, name)
            for option, name in self._unmatched()
            if not _has_wildcards(name) and not _is_operator(name)
        ]
        for option in ("allow_modules", "block_modules"):
            for pattern in getattr(self._rules, option):
                if not _matches(pattern, self._modules):
                    near = difflib.get_close_matches(pattern, sorted(self._modules), n=3)
                    message = f'{option} names "{pattern}": no operator of the model belongs to it'
                    help = "correct it, or use the wildcards * ? [ ]"
                    found.append(Diagnostic("DC412", message, expected=", ".join(near), help=help))
        for option, help in (
            ("minimum_nodes", ""),
            ("maximum_delegates", 'to delegate nothing, choose the backend "portable"'),
        ):
            value = getattr(self._rules, option)
            if value is not None and value < 1:
                message = f"{option} cannot be {value}"
                found.append(Diagnostic("DC412", message, expected="1 or more", help=help))
        return found

    def problems_after(self, operators: Iterable[str]) -> list[Diagnostic]:
        """Returns DC412 for each name of an operator that matched nothing, and a list that allows nothing.

        Args:
            operators: those that were delegated, and those that were not, in all methods.
        """
        for operator in operators:
            self._nodes |= names_of_operator(operator)
        problems = [self._unknown_operator(option, name) for option, name in self._unmatched()]
        allowed = self._rules.allow_operators
        if not problems and allowed and not any(_matches(pattern, self._nodes) for pattern in allowed):
            message = f"allow_operators allows nothing: nothing is left of {', '.join(allowed)}"
            expected = f"one of the operators that are left: {self._known(self._nodes)}"
            help = "the build removes these operators, or computes them"
            problems = [Diagnostic("DC412", message, expected=expected, help=help)]
        return problems

    def _unmatched(self) -> list[tuple[str, str]]:
        """Returns the names of operators that match nothing, each with its list."""
        known = self._nodes | self._calls
        return [
            (option, name)
            for option in ("allow_operators", "block_operators")
            for name in getattr(self._rules, option)
            if not _matches(name, known)
        ]

    def _unknown_operator(self, option: str, name: str) -> Diagnostic:
        known = self._nodes | self._calls
        near = _near(name, known)
        is_misspelt = not _has_wildcards(name) and not _is_operator(name)
        problem = "no such operator" if is_misspelt else "the model has no such operator"
        expected = ", ".join(near) or f"an operator of the model: {self._known(known)}"
        help = f"did you mean {near[0]!r}?" if near else "correct it, or remove it"
        return Diagnostic("DC412", f'{option} names "{name}": {problem}', expected=expected, help=help)

    def _known(self, names: Collection[str]) -> str:
        """Returns names of operators, without overloads, for a message."""
        packets = sorted(name for name in names if name.count(".") == 1)
        more = [f"and {len(packets) - _MOST} others"] if len(packets) > _MOST else []
        return ", ".join([*packets[:_MOST], *more])


def _matches(pattern: str, names: Collection[str]) -> bool:
    return pattern in names or any(fnmatchcase(name, pattern) for name in names)


def _has_wildcards(pattern: str) -> bool:
    return any(character in pattern for character in "*?[")


def _is_operator(name: str) -> bool:
    """Whether torch has an operator or overload of this name; a higher-order one has no namespace."""
    namespace, _, rest = name.partition(".")
    packet, _, overload = rest.partition(".")
    if not packet:
        return hasattr(torch.ops.higher_order, namespace)
    found = getattr(getattr(torch.ops, namespace), packet, None)
    return found is not None and (not overload or overload in found.overloads())


def _near(word: str, names: Collection[str]) -> list[str]:
    """Returns what an unknown name may mean: `linear`, `nn.Linear`, or a misspelled operator or overload."""
    overloads = sorted(name for name in names if name.rpartition(".")[0] == word.rpartition(".")[0])
    if word.count(".") > 1 and overloads:
        return difflib.get_close_matches(word, overloads) or overloads[:_MOST]
    packets = {name.partition(".")[2]: name for name in sorted(names) if name.count(".") == 1}
    namespaces = {name.partition(".")[0] for name in names}
    for part in reversed(word.split(".")):
        if part not in namespaces:
            near = difflib.get_close_matches(part.strip("_").lower(), packets, cutoff=_ALIKE)
            if near:
                return [packets[each] for each in near]
    return []
