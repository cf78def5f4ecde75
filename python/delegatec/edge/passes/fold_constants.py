# SPDX-License-Identifier: Apache-2.0
"""Constant folding."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, cast

# Registers torch.ops.quantized_decomposed.
import torch
import torch.ao.quantization.fx._decomposed
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.node import map_arg

from delegatec.edge.affine import AFFINE
from delegatec.edge.passes.new_constants import NewConstants
from delegatec.edge.program import EdgeProgram

quantized = torch.ops.quantized_decomposed

# A folded value is a new constant in the file. Up to this many bytes it is always worth it; a larger one
# only if it replaces constants that are larger.
_SMALL: Final = 64 * 1024

# Quantized weights are small on purpose: dequantization of more elements than this is not folded.
_FEW: Final = 64
# Maximum length of a name: each call extends the names of its operands.
_LONGEST: Final = 256
_FACTORIZATIONS: Final = frozenset({"cholesky", "geqrf", "lu_unpack", "ormqr", "triangular_solve"})
_LEVELS: Final = frozenset({torch.int8, torch.uint8})
# Libraries of operators that a backend has requested as they are; otherwise they are decomposed before.
_WHOLE: Final = frozenset({"quantized_decomposed", "delegatec"})
_QUANTIZE: Final = frozenset(
    {
        *(getattr(quantized.quantize_per_tensor, name) for name in ("default", "tensor", "tensor2")),
        quantized.quantize_per_channel.default,
        quantized.quantize_per_channel_group.default,
        AFFINE.quantize_affine.default,
    }
)


def fold_constants(program: EdgeProgram) -> bool:
    """Replaces calls whose arguments are all constants by constants, unless these are large."""
    return _fold(program, lambda node, _: _is_worthwhile(program, node))


def fold_own_constants(program: EdgeProgram, kept: Collection[str] = ()) -> bool:
    """Replaces calls on large constants, such as transposes, if the constants are not needed any more.

    They stay where a constant has other uses, in bodies of control flow or by another name too, or has to
    keep its name and value.

    Args:
        program: edited in place, bodies included.
        kept: fully qualified names of weights that must stay as they are in the model.

    Returns:
        Whether a call was folded.
    """
    uses = Counter(tensor.data_ptr() for part in program.walk() for tensor in part.constants.values())

    def fold(part: EdgeProgram) -> bool:
        def is_own(operand: Node, names: Mapping[str, str]) -> bool:
            pointer = part.constants[operand.name].data_ptr()
            return len(operand.users) == 1 and uses[pointer] <= 1 and names[operand.name] not in kept

        def is_worthwhile(node: Node, names: Mapping[str, str]) -> bool:
            val = node.meta["val"]
            own = [part.constants[each.name] for each in node.all_input_nodes if is_own(each, names)]
            return isinstance(val, torch.Tensor) and val.nbytes <= sum(each.nbytes for each in own)

        return _fold(part, is_worthwhile)

    folded = [fold(part) for part in program.walk()]
    return any(folded)


def fold_quantized_constants(program: EdgeProgram) -> bool:
    """Replaces quantization of constants, in graphs that simulate quantized weights, by their levels."""
    if not any(node.target in _QUANTIZE for node in program.graph.nodes):
        return False
    return _fold(program, lambda node, _: node.target in _QUANTIZE, whole=True)


def _fold(
    program: EdgeProgram, is_worthwhile: Callable[[Node, Mapping[str, str]], bool], whole: bool = False
) -> bool:
    """Folds calls on constants; `is_worthwhile` is given a call, and the names of constants in the model."""
    fixed = set(program.fixed_constants())
    made = NewConstants(program)
    for node in list(program.graph.nodes):
        if not _is_foldable(node, fixed, whole) or not is_worthwhile(node, made.names):
            continue
        origin, value = _origin(made.names, node), _evaluate(program, node)
        for result in _results(node):
            tensor = value if isinstance(value, torch.Tensor) else value[cast(int, result.args[1])]
            constant = made.add(origin, tensor, result)
            result.replace_all_uses_with(constant)
            program.graph.erase_node(result)
            fixed.add(constant.name)
    is_changed = made.declare()
    program.erase_unused_placeholders()
    return is_changed


def _origin(names: Mapping[str, str], node: Node) -> str:
    """Returns the names of a folded call's constants in the model, truncated."""
    assert isinstance(node.target, OpOverload)
    sources = "+".join(dict.fromkeys(names[operand.name] for operand in node.all_input_nodes))
    return f"{sources[:_LONGEST]}.{node.target._opname}" if sources else node.target._opname


def _is_foldable(node: Node, fixed: set[str], whole: bool) -> bool:
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return False
    if torch.Tag.nondeterministic_seeded in node.target.tags or not _is_static(node.meta["val"]):
        return False
    if not all(operand.name in fixed for operand in node.all_input_nodes):
        return False
    return whole or node.target.namespace not in _WHOLE


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
    # `numel` raises if the offset in a storage is symbolic
    counts = [math.prod(value.shape) for value in values]
    size = sum(count * value.dtype.itemsize for count, value in zip(counts, values, strict=True))
    if size <= _SMALL and not (_dequantizes(node) and sum(counts) > _FEW):
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
