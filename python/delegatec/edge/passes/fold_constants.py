# SPDX-License-Identifier: Apache-2.0
"""Computes at build time what depends on constants only."""

from __future__ import annotations

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
    changed = False
    for node in list(program.graph.nodes):
        if _is_foldable(node, fixed) and _is_worth(program, node):
            fixed.add(_replace_by_constant(program, node, _evaluate(program, node)).name)
            changed = True
    return changed


def add_constant(program: EdgeProgram, origin: str, value: torch.Tensor, like: Node) -> Node:
    """Adds a placeholder for a constant.

    Constants stand in front of all other placeholders, so that the order of the user's inputs stays.

    Args:
        program: gets the constant.
        origin: what it was made of, in the model's names; made unique, it becomes the constant's own.
        value: its value.
        like: the node that it stands for, whose metadata it takes over.
    """
    graph = program.graph
    first = next(iter(graph.nodes))
    with graph.inserting_before(first):
        placeholder = graph.placeholder(f"c_{like.name}")
    placeholder.meta = dict(like.meta)
    program.constants[placeholder.name] = value
    program.input_specs.insert(
        0,
        InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(placeholder.name), _unique(program, origin)),
    )
    return placeholder


def _unique(program: EdgeProgram, origin: str) -> str:
    taken = {spec.target for spec in program.input_specs}
    return next(
        name for number in count() if (name := f"{origin}_{number}" if number else origin) not in taken
    )


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


def _replace_by_constant(program: EdgeProgram, node: Node, value: torch.Tensor) -> Node:
    assert isinstance(node.target, OpOverload)
    names = program.names_in_model()
    sources = dict.fromkeys(names[operand.name] for operand in node.all_input_nodes)
    origin = ".".join(["+".join(sources), node.target._opname] if sources else [node.target._opname])
    constant = add_constant(program, origin, value.contiguous(), node)
    node.replace_all_uses_with(constant)
    program.graph.erase_node(node)
    return constant
