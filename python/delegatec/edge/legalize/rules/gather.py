# SPDX-License-Identifier: Apache-2.0
"""Gathers: indices, embeddings, and moves of elements that are gathers along one dimension.

Targets gather along one dimension by one index of nonnegative int32 positions. Indices are not checked at run
time: the result of one that is out of range is undefined.
"""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import HAS_AXIS, argument
from delegatec.edge.legalize.rule import FunctionTable, Refusal, Rewrite
from delegatec.edge.legalize.rules.indices import ElementIndex, TensorIndex, progression
from delegatec.edge.legalize.rules.ranks import again
from delegatec.edge.legalize.value import Value, table, value_of

aten = torch.ops.aten


# ---- embeddings ------------------------------------------------------------------------------------------


def _embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """Returns [bags, width]: the sum (mode 0), mean (1) or maximum (2) of each bag's rows; 0 if empty.

    The other results, for gradients, are not computed. A sum is a product with a matrix of zeros and ones, so
    an infinity or NaN makes NaN of all bags: a sum of selected rows would take `bags` times the memory. The
    maximum of a bag with a NaN is NaN, which eager mode drops unless it is first.
    """
    count = indices.shape[0]
    rows = aten.embedding.default(weight, indices)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    position = torch.arange(count)
    starts = offsets[:-1] if include_last_offset else offsets
    ends = (
        offsets[1:]
        if include_last_offset
        else torch.cat([offsets[1:], torch.full([1], count, dtype=offsets.dtype)])
    )
    member = (position >= starts.unsqueeze(1)) & (position < ends.unsqueeze(1))
    if padding_idx >= 0:
        member = member & (indices != padding_idx)
    if mode == 2:
        found = torch.where(member.unsqueeze(2), rows, -math.inf).amax(1)
        return torch.where(member.any(1, keepdim=True), found, 0.0), None, None, None
    share = member.to(rows.dtype)
    found = share @ rows
    if mode == 1:
        found = found / share.sum(1, keepdim=True).clamp(min=1)
    return found, None, None, None


# ---- indices ---------------------------------------------------------------------------------------------


def _with_rank_1(builder: Builder, node: Node) -> Any:
    """Replaces an index of rank 0 by one of rank 1."""
    bound = bind(node)
    name = "indices" if "indices" in bound else "index"
    if shape_of(bound[name]):
        return None
    return again(builder, node, **{name: value_of(builder, bound[name]).view(1).node})


def _index(builder: Builder, node: Node) -> Node | None:
    bound = bind(node)
    x, given = value_of(builder, bound["self"]), [index for index in bound["indices"] if index is not None]
    if len(given) == 1 and shape_of(given[0]) and builder.facts.of(given[0]).low >= 0:
        return None
    selected = TensorIndex(x, bound["indices"])
    if len(given) == 1:
        found = x.index(selected.axis, selected.index.to(torch.int64))
    else:
        found = selected.of(x).take(selected.axis, selected.index)
    return found.view(*shape_of(node)).node


def _gather(builder: Builder, node: Node) -> Node:
    bound = bind(node)
    x = value_of(builder, bound["self"])
    selected = ElementIndex(x, bound["dim"], bound["index"])
    return x.view(*selected.shape).take(selected.axis, selected.index).view(*shape_of(node)).node


def _index_by_selection(builder: Builder, node: Node) -> Node:
    """Selects along the merged indexed dimensions, by a row of positions."""
    bound = bind(node)
    x = value_of(builder, bound["self"])
    selected = TensorIndex(x, bound["indices"])
    positions = selected.index.view(selected.index.numel)
    return selected.of(x).index_select(selected.axis, positions).view(*shape_of(node)).node


def _selection_by_gather(builder: Builder, node: Node) -> Node | None:
    bound = bind(node)
    x, index = value_of(builder, bound["self"]), value_of(builder, bound["index"])
    if not x.shape:
        return None
    dim = positive(bound["dim"], x.rank)
    ones = [1] * x.rank
    ones[dim] = index.numel
    spread = index.view(*ones).expand(*shape_of(node))
    return builder.call(aten.gather.default, x.node, dim, spread.node, val=node.meta["val"])


def _embedding_by_selection(builder: Builder, node: Node) -> Node | None:
    """Selects rows of a table that is computed."""
    bound = bind(node)
    if builder.facts.constant(bound["weight"]) is not None:
        return None
    rows, indices = value_of(builder, bound["weight"]), value_of(builder, bound["indices"])
    return rows.index_select(0, indices.view(indices.numel)).view(*shape_of(node)).node


_COMPUTED: Final = Refusal("constant", "an index is not a constant: there are no lookups")
_VARYING: Final = Refusal("dynamic-shape", "the size of an indexed dimension varies")
_APART: Final = Refusal("argument", "the indexed dimensions are not adjacent")


def _constant_index(builder: Builder, node: Node) -> Node | Refusal:
    """Returns the call; adjacent dimensions are merged, and negative indices made nonnegative."""
    bound = bind(node)
    given = [(dim, index) for dim, index in enumerate(bound["indices"]) if index is not None]
    dims, tables = [dim for dim, _ in given], [builder.facts.constant(index) for _, index in given]
    if any(each is None or each.dtype not in (torch.int32, torch.int64) for each in tables):
        return _COMPUTED
    if dims != list(range(dims[0], dims[-1] + 1)):
        return _APART
    x = value_of(builder, bound["self"])
    if not all(isinstance(x.shape[dim], int) for dim in dims):
        return _VARYING
    flat_index = torch.tensor(0)
    for dim, each in zip(dims, tables, strict=True):
        assert each is not None
        flat_index = flat_index * x.shape[dim] + torch.where(each < 0, each + x.shape[dim], each)
    first, end = dims[0], dims[-1] + 1
    x = x.view(*x.shape[:first], math.prod(x.shape[first:end]), *x.shape[end:])
    chosen = x.index_select(first, table(builder, flat_index.reshape(-1)))
    return (chosen if flat_index.dim() == 1 else chosen.view(*shape_of(node))).node


def _flip(builder: Builder, node: Node) -> Node:
    bound = bind(node)
    x = value_of(builder, bound["self"])
    for dim in sorted(positive(dim, x.rank) for dim in bound["dims"] if x.rank):
        if (size := x.shape[dim]) > 1:
            x = x.index_select(dim, progression(builder, size, start=size - 1, step=-1))
    return x.node


def _flip_of_middle(builder: Builder, node: Node) -> Node | None:
    """Reverses a dimension as the second of three: those before and those after it are merged."""
    bound = bind(node)
    x = value_of(builder, bound["self"])
    dims = sorted(positive(dim, x.rank) for dim in bound["dims"] if x.rank)
    if x.rank == 3 and dims == [1]:
        return None
    for dim in dims:
        if x.shape[dim] > 1:
            rows = x.view(math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :]))
            x = Value(builder, builder.call(aten.flip.default, rows.node, [1])).view(*x.shape)
    return x.node


def _as_strided(builder: Builder, node: Node) -> Node:
    bound, sizes = bind(node), shape_of(node)
    x = value_of(builder, bound["self"])
    index = progression(builder, 1, max(len(sizes) - 1, 0), start=bound["storage_offset"] or 0)
    for dim, (size, stride) in enumerate(zip(sizes, bound["stride"], strict=True)):
        if size > 1:
            offset = progression(builder, size, len(sizes) - 1 - dim, step=stride)
            index = (index + offset).within(0, x.numel - 1)
    return x.view(x.numel).take(0, index).view(*sizes).node


def _are_indices(indices: Any) -> bool:
    given = [index for index in indices if index is not None]
    return bool(given) and all(dtype_of(index) in (torch.int32, torch.int64) for index in given)


INDICES: Final = argument(
    "indices",
    _are_indices,
    "Indices are int32 or int64: the number of elements that a mask selects is data-dependent.",
    "torch.where for masks",
)
_RANK_1: Final = "reshapes an index of rank 0 to rank 1"

FUNCTIONS: FunctionTable = {
    aten._embedding_bag.default: _embedding_bag,
    aten._embedding_bag_forward_only.default: _embedding_bag,
}

REWRITES: Final = (
    Rewrite(aten.embedding.default, _with_rank_1, note=_RANK_1),
    Rewrite(aten.index_select.default, _with_rank_1, (HAS_AXIS,), note=_RANK_1),
    Rewrite(
        aten.index.Tensor,
        _index,
        (HAS_AXIS, INDICES),
        note="several indices as linear indices into a view; adds the size to indices that may be negative",
    ),
    Rewrite(aten.gather.default, _gather, note="by linear indices into a view"),
    Rewrite(aten.flip.default, _flip, computes=False),
    Rewrite(aten.as_strided.default, _as_strided, note="for an operand in row-major order", computes=False),
)

INDEX_BY_SELECTION: Final = Rewrite(
    aten.index.Tensor, _index_by_selection, (HAS_AXIS, INDICES), note="`index_select`"
)
SELECTION_BY_GATHER: Final = Rewrite(aten.index_select.default, _selection_by_gather, computes=False)
EMBEDDING_BY_SELECTION: Final = Rewrite(aten.embedding.default, _embedding_by_selection)
CONSTANT_INDEX: Final = Rewrite(
    aten.index.Tensor,
    _constant_index,
    note="elements at constant indices of adjacent dimensions",
    computes=False,
)
FLIP_OF_MIDDLE: Final = Rewrite(
    aten.flip.default, _flip_of_middle, computes=False, note="the second of three dimensions"
)
