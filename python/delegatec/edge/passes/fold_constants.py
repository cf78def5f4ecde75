# SPDX-License-Identifier: Apache-2.0
"""Constant folding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.node import map_arg

from delegatec.edge.passes.new_constants import NewConstants
from delegatec.edge.program import EdgeProgram

# A folded value is a new constant in the file. Up to this many bytes it is always worth it; a larger one
# only if it replaces constants that are larger.
_SMALL: Final = 64 * 1024

# Quantized weights are small on purpose: dequantization of more elements than this is not folded.
_FEW: Final = 64
# Maximum length of a name: each call extends the names of its operands.
_LONGEST: Final = 256
_FACTORIZATIONS: Final = frozenset({"cholesky", "geqrf", "lu_unpack", "ormqr", "triangular_solve"})
_LEVELS: Final = frozenset({torch.int8, torch.uint8})


def fold_constants(program: EdgeProgram) -> bool:
    """Replaces calls whose arguments are all constants by constants."""
    fixed = set(program.fixed_constants())
    made = NewConstants(program)
    for node in list(program.graph.nodes):
        if not _is_foldable(node, fixed) or not _is_worthwhile(program, node):
            continue
        origin, value = _origin(made.names, node), _evaluate(program, node)
        for result in _results(node):
            tensor = value if isinstance(value, torch.Tensor) else value[cast(int, result.args[1])]
            constant = made.add(origin, tensor, result)
            result.replace_all_uses_with(constant)
            program.graph.erase_node(result)
            fixed.add(constant.name)
    return made.declare()


def _origin(names: Mapping[str, str], node: Node) -> str:
    """Returns the names of a folded call's constants in the model, truncated."""
    assert isinstance(node.target, OpOverload)
    sources = "+".join(dict.fromkeys(names[operand.name] for operand in node.all_input_nodes))
    return f"{sources[:_LONGEST]}.{node.target._opname}" if sources else node.target._opname


def _is_foldable(node: Node, fixed: set[str]) -> bool:
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return False
    if torch.Tag.nondeterministic_seeded in node.target.tags or not _is_static(node.meta["val"]):
        return False
    return all(operand.name in fixed for operand in node.all_input_nodes)


def _is_static(val: Any) -> bool:
    several = val if isinstance(val, (tuple, list)) else (val,)
    return all(
        isinstance(each, torch.Tensor) and all(isinstance(size, int) for size in each.shape)
        for each in several
    )


def _results(node: Node) -> list[Node]:
    """Returns the nodes with the results of a call: itself, or the `getitem` nodes of several results."""
    return [node] if isinstance(node.meta["val"], torch.Tensor) else list(node.users)


def _evaluate(program: EdgeProgram, node: Node) -> torch.Tensor | Sequence[torch.Tensor]:
    args, kwargs = map_arg((node.args, node.kwargs), lambda operand: program.constants[operand.name])
    with torch.no_grad():
        value: torch.Tensor | Sequence[torch.Tensor] = node.target(*args, **kwargs)  # type: ignore[operator]
    return value


def _is_worthwhile(program: EdgeProgram, node: Node) -> bool:
    values = [result.meta["val"] for result in _results(node)]
    size = sum(value.nbytes for value in values)
    if size <= _SMALL and not (_dequantizes(node) and sum(value.numel() for value in values) > _FEW):
        return True
    if _is_factorization(node):
        return True
    freed = sum(
        program.constants[operand.name].nbytes for operand in node.all_input_nodes if len(operand.users) == 1
    )
    return bool(size < freed)


def _is_factorization(node: Node) -> bool:
    """Whether neither the runtime nor a delegate computes the call."""
    assert isinstance(node.target, OpOverload)
    name = node.target._opname
    return "linalg_" in name or name in _FACTORIZATIONS


def _dequantizes(node: Node) -> bool:
    sources = {operand.meta["val"].dtype for operand in node.all_input_nodes}
    return bool(sources & _LEVELS) and any(
        result.meta["val"].dtype.is_floating_point for result in _results(node)
    )
