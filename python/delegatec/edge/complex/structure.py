# SPDX-License-Identifier: Apache-2.0
"""Operators that apply to both parts alike: data movement, and operators linear in real factors."""

from __future__ import annotations

import operator
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.complex.pair import Pair, real_dtype
from delegatec.edge.complex.values import Values

# Names of operators, for all their overloads.
_NAMES: Final = """
alias broadcast_to cat chunk clone concat concatenate constant_pad_nd contiguous copy cumsum detach diag_embed
diagonal diagonal_scatter expand expand_as fill flatten flip gather hstack index index_add index_copy
index_fill index_put index_select lift_fresh_copy masked_fill masked_scatter mean moveaxis movedim mT narrow
neg numpy_T pad permute positive repeat repeat_interleave reshape resolve_conj resolve_neg roll rot90 scatter
scatter_add select select_scatter slice slice_scatter split split_with_sizes squeeze stack sum swapaxes T t
take_along_dim tensor_split tile transpose tril triu unbind unflatten unfold unsafe_chunk unsafe_split
unsqueeze view view_copy vstack where _neg_view _reshape_alias _unsafe_view
"""

PARTWISE: Final = frozenset(_NAMES.split())

# Arguments that contribute values; the others are indices, masks, conditions or settings.
_VALUES: Final = frozenset(
    {"self", "tensor", "tensors", "input", "other", "value", "values", "source", "src"}
)


def partwise(values: Values, b: Builder, node: Node) -> Pair | None:
    """Applies the operator to the real parts of its operands, and to the imaginary ones."""
    target: Any = node.target
    if target is operator.getitem:
        source: Any = node.args[0]
        real, imag = (b.call(target, part, node.args[1]) for part in values.pairs[source])
        return Pair(real, imag)
    assert isinstance(target, OpOverload)
    val = node.meta["val"]
    kind = real_dtype(dtype_of(node) if isinstance(val, torch.Tensor) else val[0].dtype)
    parts = []
    for position in (0, 1):
        arguments = target._schema.arguments
        args = [
            _part(values, b, value, argument.name, kind, position)
            for value, argument in zip(node.args, arguments, strict=False)
        ]
        kwargs = {name: _part(values, b, value, name, kind, position) for name, value in node.kwargs.items()}
        parts.append(b.call(target, *args, **kwargs))
    return Pair(*parts)


def _part(values: Values, b: Builder, value: Any, name: str, kind: torch.dtype, position: int) -> Any:
    """Returns an argument for the computation of the real (0) or imaginary (1) part."""
    if isinstance(value, torch.dtype):
        return real_dtype(value)
    if name not in _VALUES or value is None:
        return value
    if isinstance(value, (tuple, list)):
        return type(value)(_part(values, b, item, name, kind, position) for item in value)
    if isinstance(value, Node):
        return values.tensors(b, value, kind)[position]
    return values.pair(value)[position]
