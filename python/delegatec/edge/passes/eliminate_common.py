# SPDX-License-Identifier: Apache-2.0
"""Common subexpression elimination."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.utils._sympy.symbol import SymT, symbol_is_type

from delegatec.edge.passes.redirect import redirect
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import DEQUANTIZE_BLOCKS
from delegatec.edge.substitution import substitute

aten = torch.ops.aten

_NOT_REPEATABLE: Final = torch.Tag.nondeterministic_seeded

# Without keyword arguments. The maximum of zeros of both signs depends on their order.
_COMMUTATIVE: Final = frozenset(
    {
        aten.add.Tensor,
        aten.bitwise_and.Tensor,
        aten.bitwise_or.Tensor,
        aten.bitwise_xor.Tensor,
        aten.eq.Tensor,
        aten.logical_and.default,
        aten.logical_or.default,
        aten.logical_xor.default,
        aten.mul.Tensor,
        aten.ne.Tensor,
    }
)


_DEQUANTIZE: Final = ("dequantize_per_tensor", "dequantize_per_token", "dequantize_affine")


def eliminate_common(program: EdgeProgram) -> bool:
    """Replaces a call by an earlier one of the same operator on the same arguments.

    An activation is dequantized once for each user: backends recognize a layer with its own call. Sizes that
    depend on data have a symbol for each call, so that those of the later one are replaced, too.
    """
    seen: dict[Any, Node] = {}
    equal: dict[Node, Node] = {}
    symbols: dict[Any, Any] = {}
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        if isinstance(node.target, OpOverload) and (
            _NOT_REPEATABLE in node.target.tags or _dequantizes_activation(node)
        ):
            continue
        args, kwargs = _key(node.args, equal), _key(tuple(sorted(node.kwargs.items())), equal)
        key = (node.target, frozenset(args) if node.target in _COMMUTATIVE and not kwargs else args, kwargs)
        first = seen.setdefault(key, node)
        if first is not node:
            equal[node] = first
            symbols |= _same_symbols(node, first)
    changed = redirect(equal)
    if symbols:
        substitute(program, symbols)
    return changed


def _dequantizes_activation(node: Node) -> bool:
    is_weight = node.target is DEQUANTIZE_BLOCKS and node.all_input_nodes[0].op == "placeholder"
    return node.target._opname in _DEQUANTIZE and not is_weight  # type: ignore[union-attr]


def _same_symbols(node: Node, first: Node) -> dict[Any, Any]:
    """Returns the symbols that a call defines -> those of an equal call."""
    pairs = zip(_sizes(node.meta.get("val")), _sizes(first.meta.get("val")), strict=True)
    symbolic = (
        (size.node.expr, other.node.expr)
        for size, other in pairs
        if isinstance(size, torch.SymInt) and isinstance(other, torch.SymInt)
    )
    return {
        size: other
        for size, other in symbolic
        if size != other and size.is_Symbol and symbol_is_type(size, SymT.UNBACKED_INT)
    }


def _sizes(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [size for each in value for size in _sizes(each)]
    return list(value.shape) if isinstance(value, torch.Tensor) else [value]


def _key(value: Any, equal: Mapping[Node, Node]) -> Any:
    if isinstance(value, Node):
        return equal.get(value, value)
    if isinstance(value, (tuple, list)):
        return tuple(_key(item, equal) for item in value)
    if isinstance(value, slice):
        return ("slice", value.start, value.stop, value.step)
    # 1, 1.0 and True are equal to Python, and -0.0 to 0.0
    return (type(value), repr(value)) if isinstance(value, (bool, int, float)) else value
