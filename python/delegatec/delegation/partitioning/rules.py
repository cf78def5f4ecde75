# SPDX-License-Identifier: Apache-2.0
"""A user's rules for delegation, for all backends."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch.fx import Node

from delegatec.delegation.delegates.operators import operator_name
from delegatec.delegation.protocol.partitioner import Rejection
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.program import EdgeProgram


@dataclass(frozen=True)
class PartitionRules:
    """Which nodes may be delegated, of those that a backend supports.

    Operators are named as in the edge program: "aten.add.Tensor", or "aten.add" for all of its overloads.
    Modules are named by their fully qualified names in the model: "encoder.layer.0" includes its submodules.
    Both may have the wildcards * ? [ ].

    Attributes:
        allow_operators: only these; all if empty.
        block_operators: not these.
        allow_modules: only nodes in these; all if empty.
        block_modules: not nodes in these.
        minimum_nodes: of a delegate.
        maximum_delegates: per graph, which is a method or a body of its control flow: the largest ones are
            kept; None for no limit.
        all_or_nothing: whether a graph is delegated completely or not at all.

    Raises:
        DelegatecError: DC412 for each attribute of a wrong type.
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
        if not isinstance(self.all_or_nothing, bool):
            message = f"all_or_nothing cannot be {self.all_or_nothing!r}"
            problems.append(Diagnostic("DC412", message, expected="True or False"))
        if problems:
            raise DelegatecError(problems)

    def problems(self, programs: Iterable[EdgeProgram]) -> list[Diagnostic]:
        """Returns DC412 for each unknown operator or module, and each invalid number.

        Args:
            programs: all methods of the model.
        """
        found = []
        for option in ("allow_operators", "block_operators"):
            for pattern in getattr(self, option):
                if not _has_wildcards(pattern) and not _is_operator(pattern):
                    found.append(_unknown(option, pattern, "no such operator", _like(pattern)))
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
                    found.append(_unknown(option, pattern, "no operator of the model belongs to it", modules))
        for option, least in (("minimum_nodes", 1), ("maximum_delegates", 0)):
            value = getattr(self, option)
            if value is not None and value < least:
                found.append(Diagnostic("DC412", f"{option} cannot be {value}", expected=f"{least} or more"))
        return found

    def rejection(self, node: Node) -> Rejection | None:
        """Returns why the lists reject a node; None if they do not."""
        name = operator_name(node)
        names = (name, name.rpartition(".")[0])
        return _listed(node, "operators", name, names, self.allow_operators, self.block_operators) or _listed(
            node, "modules", *_place(node), self.allow_modules, self.block_modules
        )


def module_paths(node: Node) -> list[str]:
    """Returns the fully qualified names of a node's modules, from the model itself ("") to the innermost."""
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
        message, help = f'{what} matches "{pattern}"', f'remove "{pattern}" from block_{kind}'
        return Rejection(node, f"block-{kind}", message, help)
    if allowed and not any(fnmatchcase(name, p) for name in names for p in allowed):
        message = f"{what} is not one of {', '.join(allowed)}"
        return Rejection(node, f"allow-{kind}", message, f"add it to allow_{kind}")
    return None


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


def _like(name: str) -> Iterator[str]:
    """Yields operators to compare a misspelled one with."""
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
        f'{option} names "{pattern}": {problem}',
        expected=", ".join(near),
        help="correct it, or use the wildcards * ? [ ]",
    )
