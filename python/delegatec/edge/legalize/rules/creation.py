# SPDX-License-Identifier: Apache-2.0
"""Creation of tensors, and conversions of dtypes."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite, RuleTable
from delegatec.edge.legalize.rules.pointwise import INTEGERS
from delegatec.edge.legalize.value import Value, full, table, value_of

aten = torch.ops.aten


# ---- normal form -----------------------------------------------------------------------------------------


def _to(b: Builder, node: Node) -> Node:
    """Replaces the overloads of `to`, which can only change the dtype here."""
    return b.call(aten._to_copy.default, node.args[0], dtype=dtype_of(node), val=node.meta["val"])


def _arange(b: Builder, node: Node) -> Node:
    a = bind(node)
    start, step = a.get("start") or 0, a.get("step") or 1
    return b.call(aten.arange.start_step, start, a["end"], step, dtype=dtype_of(node), val=node.meta["val"])


def _linspace(b: Builder, node: Node) -> Node | None:
    """Converts bools, which torch's decomposition subtracts."""
    start, end, *rest = node.args
    if not isinstance(start, bool) and not isinstance(end, bool):
        return None
    ends = [int(each) if isinstance(each, bool) else each for each in (start, end)]
    return b.call(aten.linspace.default, *ends, *rest, val=node.meta["val"], **node.kwargs)


def _item(b: Builder, node: Node) -> Node:
    """Reads the scalar of a tensor; traced, it would be another symbol."""
    return b.call(aten._local_scalar_dense.default, node.args[0], val=node.meta["val"])


def _full(b: Builder, node: Node, fill: Any) -> Node:
    return b.call(aten.full.default, list(shape_of(node)), fill, dtype=dtype_of(node), val=node.meta["val"])


def _filled(b: Builder, node: Node) -> Node:
    return _full(b, node, bind(node)["fill_value"])


def _ones(b: Builder, node: Node) -> Node:
    return _full(b, node, 1)


def _zeros(b: Builder, node: Node) -> Node:
    return _full(b, node, 0)


def _fill(b: Builder, node: Node) -> Node:
    value = bind(node)["value"]
    if not isinstance(value, Node) or not isinstance(value.meta["val"], torch.Tensor):
        return _full(b, node, value)
    return _written(b, node, value)


def _copy(b: Builder, node: Node) -> Node:
    return _written(b, node, bind(node)["src"])


def _written(b: Builder, node: Node, source: Node) -> Node:
    """Converts a source to the shape and dtype of the tensor that it overwrites."""
    if dtype_of(source) != dtype_of(node):
        source = b.call(aten._to_copy.default, source, dtype=dtype_of(node))
    return b.call(aten.expand.default, source, list(shape_of(node)), val=node.meta["val"])


# ---- for targets that lack some forms --------------------------------------------------------------------


def _of_one_value(builder: Builder, node: Node) -> Node:
    """Returns the scalar in a complete shape; uninitialized memory is zero."""
    fill_value = bind(node).get("fill_value", 0)
    return full(builder, shape_of(node), fill_value, dtype_of(node)).node


def _expanded(builder: Builder, node: Node) -> Node:
    """Expands a constant of one element."""
    shape, dtype = shape_of(node), dtype_of(node)
    fill_value = torch.tensor(bind(node)["fill_value"]).to(dtype)
    return table(builder, fill_value.view((1,) * len(shape))).expand(*shape).node


def is_narrower(node: Node) -> bool:
    """Whether a conversion is to an integer dtype of fewer bits."""
    source, dtype = dtype_of(bind(node)["self"]), dtype_of(node)
    return {source, dtype} <= INTEGERS and dtype.itemsize < source.itemsize


def _wrapped(builder: Builder, node: Node) -> Node | None:
    """Takes integers modulo the range of a smaller dtype before the conversion."""
    if not is_narrower(node):
        return None
    dtype = dtype_of(node)
    x, sign = value_of(builder, bind(node)["self"]), 1 << dtype.itemsize * 8 - 1
    wrapped: Value = ((x & (2 * sign - 1)) ^ sign) - sign
    return wrapped.to(dtype).within(-sign, sign - 1).node


RULES: RuleTable = {
    **dict.fromkeys(
        (aten.to.dtype, aten.to.dtype_layout, aten.to.device, aten.to.other, aten.type_as.default), _to
    ),
    **dict.fromkeys((aten.arange.default, aten.arange.start), _arange),
    aten.copy.default: _copy,
    **dict.fromkeys((aten.fill.Scalar, aten.fill.Tensor), _fill),
    aten.item.default: _item,
    aten.linspace.default: _linspace,
    **dict.fromkeys((aten.full_like.default, aten.new_full.default), _filled),
    **dict.fromkeys((aten.ones.default, aten.ones_like.default, aten.new_ones.default), _ones),
    # folded uninitialized memory would make builds differ
    **dict.fromkeys(
        (
            aten.empty.memory_format,
            aten.empty_like.default,
            aten.empty_permuted.default,
            aten.empty_strided.default,
            aten.new_empty.default,
            aten.new_empty_strided.default,
            aten.new_zeros.default,
            aten.zeros.default,
            aten.zeros_like.default,
        ),
        _zeros,
    ),
}

REWRITES: Final = (
    *(
        Rewrite(target, _of_one_value, computes=False)
        for target in (aten.full_like.default, aten.empty.memory_format)
    ),
    Rewrite(aten.full.default, _expanded, note="a constant of one element, expanded", computes=False),
    Rewrite(
        aten._to_copy.default,
        _wrapped,
        note="integers wrap around before the conversion to fewer bits",
        computes=False,
    ),
)
