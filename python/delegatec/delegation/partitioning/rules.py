# SPDX-License-Identifier: Apache-2.0
"""A user's rules for delegation, for all backends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch.fx import Node

from delegatec.delegation.delegates.operators import operator_name
from delegatec.delegation.protocol.partitioner import Rejection
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.handles import Origin


@dataclass(frozen=True)
class PartitionRules:
    """Which nodes may be delegated, of those that a backend supports.

    Operators are named "aten.add.Tensor", or "aten.add" for all overloads: as in the edge program, or as in
    the exported program that it comes from, where a composite, such as "aten.conv2d", stands for all nodes of
    its decomposition. Modules are named by their fully qualified names in the model: "encoder.layer.0"
    includes its submodules. Both may have the wildcards * ? [ ].

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

    def rejection(self, node: Node, origins: Mapping[int, Origin]) -> Rejection | None:
        """Returns why the lists reject a node; None if they do not.

        Args:
            node: a call.
            origins: those of its program.
        """
        what, names = _called(node, origins), names_of_call(node, origins)
        return _listed(node, "operators", what, names, self.allow_operators, self.block_operators) or _listed(
            node, "modules", *_scope(node), self.allow_modules, self.block_modules
        )


def module_paths(node: Node) -> list[str]:
    """Returns the fully qualified names of a node's modules, from the model itself ("") to the innermost."""
    return [str(entry[0]) for entry in (node.meta.get("nn_module_stack") or {}).values()]


def names_of_call(node: Node, origins: Mapping[int, Origin]) -> set[str]:
    """Returns the names by which rules select a call, such as "aten.add.Tensor" and "aten.add".

    They are those of its operator, and of the operator that it comes from in the exported program: a
    composite such as `aten.conv2d` becomes other calls, unless a backend or a kernel computes it as a whole.

    Args:
        node: a call.
        origins: those of its program.
    """
    return names_of_operator(operator_name(node)) | names_of_operator(_origin(node, origins))


def names_of_origins(origins: Mapping[int, Origin]) -> set[str]:
    """Returns such names of all calls of an exported program, including calls that are removed completely."""
    return {
        name for origin in origins.values() if origin.is_call for name in names_of_operator(origin.operator)
    }


def names_of_operator(operator: str) -> set[str]:
    """Returns the names of an overload: its full name, and the name for all overloads."""
    return {operator, operator.rpartition(".")[0]} - {""}


def _called(node: Node, origins: Mapping[int, Origin]) -> str:
    name, origin = operator_name(node), _origin(node, origins)
    return f"{name} (from {origin})" if origin and origin != name else name


def _origin(node: Node, origins: Mapping[int, Origin]) -> str:
    """Returns the operator that a node comes from; "" if it comes from no call."""
    origin = origins.get(node.meta.get("debug_handle", 0))
    return origin.operator if origin is not None and origin.is_call else ""


def _scope(node: Node) -> tuple[str, list[str]]:
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
