# SPDX-License-Identifier: Apache-2.0
"""Transparent operators: their results consist of elements of their operands.

They move, repeat or drop elements, or select between operands. All analyses share this list.
"""

from __future__ import annotations

import operator
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind


def overloads(names: str) -> list[Any]:
    """Returns ATen operators by names, "operator" or "operator.overload"."""
    pairs = (name.partition(".") for name in names.split())
    return [getattr(getattr(torch.ops.aten, packet), variant or "default") for packet, _, variant in pairs]


# Arguments that hold the elements -> the operators.
_OPERATORS: Final = {
    ("self",): """
        alias amax amin as_strided clone contiguous detach diagonal diagonal_copy expand flip gather
        index.Tensor index_select lift_fresh_copy permute repeat reshape roll select.int slice.Tensor squeeze
        squeeze.dim squeeze.dims transpose.int unfold unsqueeze view""",
    ("self", "value"): "constant_pad_nd masked_fill.Scalar scatter.value",
    ("self", "values"): "index_put",
    ("self", "src"): "scatter.src select_scatter slice_scatter",
    ("self", "other"): "where.self where.Scalar where.ScalarOther where.ScalarSelf",
    ("tensors",): "cat stack",
    ("weight",): "embedding",
    ("fill_value",): "full full_like new_full",
    ("s",): "scalar_tensor",
}

_ARGUMENTS: Final = {target: names for names, listed in _OPERATORS.items() for target in overloads(listed)}

_SPLITS: Final = frozenset(overloads("split.Tensor split_with_sizes unbind.int"))
ORDERED: Final = frozenset(overloads("max.dim min.dim sort topk"))
"""Operators with two results: elements of `self`, and their positions along `dim`."""


def elements_of(node: Node) -> list[Any] | None:
    """Returns the nodes and scalars whose elements `node` returns; None if it computes values."""
    if node.target is operator.getitem:
        source: Any = node.args[0]
        has_elements = source.target in _SPLITS or (source.target in ORDERED and node.args[1] == 0)
        return [source.args[0]] if has_elements else None
    if node.target not in _ARGUMENTS:
        return None
    bound = bind(node)
    if bound.get("accumulate"):
        return None
    values = [bound[name] for name in _ARGUMENTS[node.target]]
    return [each for value in values for each in (value if isinstance(value, (list, tuple)) else [value])]
