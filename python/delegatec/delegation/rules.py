# SPDX-License-Identifier: Apache-2.0
"""A user's rules for what may be delegated, over those of whatever backend."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch.fx import Node

from delegatec.delegation.partitioner import Rejection
from delegatec.delegation.report import operator_name
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.program import EdgeProgram


@dataclass(frozen=True)
class PartitionRules:
    """What may be delegated. The rules take away from what a backend takes; they never add to it.

    Operators are named as in the edge program: "aten.add.Tensor", or "aten.add" for all of its overloads.
    Modules are named by their fully qualified names in the model: "encoder.layer.0" stands for all that runs
    in it. Both may have the wildcards * ? [ ].

    Attributes:
        allow_operators: only these; all if empty.
        block_operators: not these.
        allow_modules: only what runs in these; all if empty.
        block_modules: not what runs in these.
        minimum_nodes: a delegate of fewer operators is not worth its call.
        maximum_delegates: of one graph, which is a method or a body of its control flow: the largest ones
            stay; None for no limit.
        all_or_nothing: whether nothing of a graph is delegated unless all of it is.

    Raises:
        DelegatecError: DC412, one for each attribute of a wrong type.
    """

    allow_operators: tuple[str, ...] = ()
    block_operators: tuple[str, ...] = ()
    allow_modules: tuple[str, ...] = ()
    block_modules: tuple[str, ...] = ()
    minimum_nodes: int = 1
    maximum_delegates: int | None = None
    all_or_nothing: bool = False

    def __post_init__(self) -> None:
        problems = []
        for option in ("allow_operators", "block_operators", "allow_modules", "block_modules"):
            names = getattr(self, option)
            if not isinstance(names, (tuple, list)) or not all(isinstance(name, str) for name in names):
                problems.append(
                    Diagnostic("DC412", f"{option} cannot be {names!r}", expected="names: a tuple of str")
                )
            else:
                object.__setattr__(self, option, tuple(names))
        for option in ("minimum_nodes", "maximum_delegates"):
            value = getattr(self, option)
            if type(value) is not int and (value is not None or option == "minimum_nodes"):
                problems.append(Diagnostic("DC412", f"{option} cannot be {value!r}", expected="an int"))
        if problems:
            raise DelegatecError(problems)

    def problems(self, programs: Iterable[EdgeProgram]) -> list[Diagnostic]:
        """DC412 for each operator that torch does not have, module that is in no program, and bad number.

        Args:
            programs: all methods of the model.
        """
        found = []
        for option in ("allow_operators", "block_operators"):
            for pattern in getattr(self, option):
                if not _has_wildcards(pattern) and not _is_operator(pattern):
                    found.append(_unknown(option, pattern, "torch has no such operator", _like(pattern)))
        modules = {
            path
            for program in programs
            for part in program.walk()
            for node in part.graph.nodes
            for path in module_paths(node)
        }
        for option in ("allow_modules", "block_modules"):
            for pattern in getattr(self, option):
                if not any(fnmatchcase(module, pattern) for module in modules):
                    found.append(_unknown(option, pattern, "nothing of the model runs in it", modules))
        for option, least in (("minimum_nodes", 1), ("maximum_delegates", 0)):
            value = getattr(self, option)
            if value is not None and value < least:
                found.append(Diagnostic("DC412", f"{option} cannot be {value}", expected=f"{least} or more"))
        return found

    def rejection(self, node: Node) -> Rejection | None:
        """Why the lists forbid that a node is delegated; None if they do not."""
        name = operator_name(node)
        names = (name, name.rpartition(".")[0])
        return _listed(node, "operators", name, names, self.allow_operators, self.block_operators) or _listed(
            node, "modules", *_place(node), self.allow_modules, self.block_modules
        )


def module_paths(node: Node) -> list[str]:
    """Fully qualified names of the modules that a node runs in, the model itself ("") first."""
    return [str(entry[0]) for entry in (node.meta.get("nn_module_stack") or {}).values()]


def _place(node: Node) -> tuple[str, list[str]]:
    paths = module_paths(node)
    return (f"module {paths[-1]!r}" if paths and paths[-1] else "the model itself"), paths


def _listed(
    node: Node,
    kind: str,
    what: str,
    names: Iterable[str],
    allowed: tuple[str, ...],
    blocked: tuple[str, ...],
) -> Rejection | None:
    pattern = next((p for p in blocked if any(fnmatchcase(name, p) for name in names)), None)
    if pattern is not None:
        message, help = f'{what} matches "{pattern}"', f'take "{pattern}" out of block_{kind}'
        return Rejection(node, f"block-{kind}", message, help)
    if allowed and not any(fnmatchcase(name, p) for name in names for p in allowed):
        message = f"{what} is none of {', '.join(allowed)}"
        return Rejection(node, f"allow-{kind}", message, f"add it to allow_{kind}")
    return None


def _has_wildcards(pattern: str) -> bool:
    return any(character in pattern for character in "*?[")


def _is_operator(name: str) -> bool:
    """Whether torch has an operator, or an overload, of this name; a higher-order one has no namespace."""
    namespace, _, rest = name.partition(".")
    packet, _, overload = rest.partition(".")
    if not packet:
        return hasattr(torch.ops.higher_order, namespace)
    found = getattr(getattr(torch.ops, namespace), packet, None)
    return found is not None and (not overload or overload in found.overloads())


def _like(name: str) -> Iterator[str]:
    """Operators to compare a misspelt one with."""
    namespace, _, rest = name.partition(".")
    packet = getattr(getattr(torch.ops, namespace), rest.partition(".")[0], None)
    if packet is not None:
        yield from (f"{namespace}.{packet.__name__}.{overload}" for overload in packet.overloads())
        return
    for schema in torch._C._jit_get_all_schemas():
        home, _, operator = schema.name.partition("::")
        if home == namespace:
            yield f"{home}.{operator}"


def _unknown(option: str, pattern: str, problem: str, names: Iterable[str]) -> Diagnostic:
    near = difflib.get_close_matches(pattern, sorted(set(names)), n=3)
    return Diagnostic(
        "DC412",
        f'{option} names "{pattern}", and {problem}',
        expected=", ".join(near),
        help="correct it, or use the wildcards * ? [ ]",
    )
