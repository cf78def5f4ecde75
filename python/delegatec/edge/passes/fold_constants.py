# SPDX-License-Identifier: Apache-2.0
"""Computes at build time what depends on constants only."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.fx import Node
from torch.fx.node import map_arg

from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

# A folded value is a new constant in the file. Up to this many bytes it is always worth it; a larger one
# only if it takes the place of constants that are larger still.
_SMALL: Final = 64 * 1024

# They move elements at no cost, or at less than a copy of the constant would.
_MOVEMENT: Final = frozenset(
    {aten.view.default, aten.permute.default, aten.unsqueeze.default, aten.squeeze.dims, aten.expand.default}
)


def fold_constants(program: EdgeProgram) -> bool:
    """Replaces calls whose arguments are all constants by constants."""
    fixed = set(program.fixed_constants())
    added = _NewConstants(program)
    for node in list(program.graph.nodes):
        if _is_foldable(node, fixed) and _is_worth(program, node):
            fixed.add(added.replace(node, _evaluate(program, node)).name)
    added.declare()
    return added.any()


class _NewConstants:
    """Constants that take the place of calls.

    They stand in front of all other placeholders, so that the order of the user's inputs stays.

    Args:
        program: gets the constants; their specs when all are there, by `declare`.
    """

    def __init__(self, program: EdgeProgram) -> None:
        self._program = program
        self._specs: list[InputSpec] = []
        self._names = program.names_in_model()
        self._taken = set(self._names.values())
        self._numbers: dict[str, Iterator[int]] = {}

    def any(self) -> bool:
        """Whether there is one."""
        return bool(self._specs)

    def replace(self, node: Node, value: torch.Tensor) -> Node:
        """Puts a constant in the place of a call, whose metadata it takes over."""
        graph = self._program.graph
        with graph.inserting_before(next(iter(graph.nodes))):
            constant = graph.placeholder(f"c_{node.name}")
        constant.meta = dict(node.meta)
        self._program.constants[constant.name] = value.contiguous()
        self._names[constant.name] = self._unique(self._origin(node))
        self._specs.append(
            InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(constant.name), self._names[constant.name])
        )
        node.replace_all_uses_with(constant)
        graph.erase_node(node)
        return constant

    def declare(self) -> None:
        """Gives the program the specs of its new placeholders."""
        self._program.input_specs[:0] = reversed(self._specs)

    def _origin(self, node: Node) -> str:
        """What a constant was made of, in the model's names."""
        assert isinstance(node.target, OpOverload)
        sources = dict.fromkeys(self._names[operand.name] for operand in node.all_input_nodes)
        return ".".join(["+".join(sources), node.target._opname] if sources else [node.target._opname])

    def _unique(self, origin: str) -> str:
        numbers = self._numbers.setdefault(origin, count())
        name = next(
            name
            for number in numbers
            if (name := f"{origin}_{number}" if number else origin) not in self._taken
        )
        self._taken.add(name)
        return name


def _is_foldable(node: Node, fixed: set[str]) -> bool:
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return False
    if torch.Tag.nondeterministic_seeded in node.target.tags or not _is_static(node.meta["val"]):
        return False
    return all(operand.name in fixed for operand in node.all_input_nodes)


def _is_static(val: Any) -> bool:
    return isinstance(val, torch.Tensor) and all(isinstance(size, int) for size in val.shape)


def _evaluate(program: EdgeProgram, node: Node) -> torch.Tensor:
    args, kwargs = map_arg((node.args, node.kwargs), lambda operand: program.constants[operand.name])
    with torch.no_grad():
        value: torch.Tensor = node.target(*args, **kwargs)  # type: ignore[operator]
    return value


def _is_worth(program: EdgeProgram, node: Node) -> bool:
    size = node.meta["val"].nbytes
    if size <= _SMALL:
        return True
    freed = sum(
        program.constants[operand.name].nbytes for operand in node.all_input_nodes if len(operand.users) == 1
    )
    return node.target not in _MOVEMENT and size < freed
