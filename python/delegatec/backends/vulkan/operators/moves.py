# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements, or only change the shape."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.vulkan.building.graph_builder import GraphBuilder
from delegatec.backends.vulkan.dtypes import ALL, NUMBERS
from delegatec.backends.vulkan.memory.demands import Demands, Group, IsConstant, tied
from delegatec.backends.vulkan.memory.representation import ANY, CHANNELS
from delegatec.backends.vulkan.operators.row import Constraint, Lower, OperatorRow, operator_row, same_call
from delegatec.edge.arguments import bind, dtype_of, positive, shape_of
from delegatec.edge.legalize.constraints import HAS_AXIS, rank_at_most, same_dtypes


def _view_memory(node: Node, _: IsConstant) -> Sequence[Group]:
    """A view copies between any layouts of a storage."""
    return Group(ANY, (bind(node)["self"],)), Group(ANY, (), (0,), same_storage_as=0)


def _view(b: GraphBuilder, node: Node) -> None:
    sizes = b.integers(shape_of(node))
    b.call("aten.view_copy.default", b.of(bind(node)["self"]), sizes, b.result(node))


def _permute(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    dims = b.integers([positive(dim, len(bound["dims"])) for dim in bound["dims"]])
    b.call("aten.permute_copy.default", b.of(bound["self"]), dims, b.result(node))


def _select(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    shape = shape_of(bound["self"])
    dim = positive(bound["dim"], len(shape))
    args = map(b.scalar, (dim, positive(bound["index"], shape[dim])))
    b.call("aten.select_copy.int", b.of(bound["self"]), *args, b.result(node))


def _slice(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    shape = shape_of(bound["self"])
    dim = positive(bound["dim"], len(shape))
    # ATen's bounds may be None, negative or out of range.
    start, end, _ = slice(bound["start"], bound["end"]).indices(shape[dim])
    args = map(b.scalar, (dim, start, max(start, end), bound["step"]))
    b.call("aten.slice_copy.Tensor", b.of(bound["self"]), *args, b.result(node))


def _expand(b: GraphBuilder, node: Node) -> None:
    sizes = b.integers(shape_of(node))
    b.call("aten.expand_copy.default", b.of(bind(node)["self"]), sizes, b.scalar(False), b.result(node))


def _cat(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    operands = b.list_of([b.of(each) for each in bound["tensors"]])
    dim = b.scalar(positive(bound["dim"], len(shape_of(node))))
    b.call("aten.cat.default", operands, dim, b.result(node))


def _split(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    dim = positive(bound["dim"], len(shape_of(bound["self"])))
    sizes = b.integers([value.shape[dim] for value in node.meta["val"]])
    args = (b.of(bound["self"]), sizes, b.scalar(dim), b.result(node))
    b.call("aten.split_with_sizes_copy.default", *args)


def _flip(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    dims = b.integers([positive(dim, len(shape_of(node))) for dim in bound["dims"]])
    b.call("aten.flip.default", b.of(bound["self"]), dims, b.result(node))


def _cropped(node: Node, _: object) -> str | None:
    negative = [each for each in bind(node)["pad"] if each < 0]
    return f"padding of {negative[0]}" if negative else None


def _pad(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    value = b.fill(bound["value"] or 0, dtype_of(node))
    b.call(
        "aten.constant_pad_nd.default", b.of(bound["self"]), b.integers(bound["pad"]), value, b.result(node)
    )


def _movement(
    name: str,
    lower: Lower,
    *constraints: Constraint,
    demands: Demands | None = None,
    dtypes: Collection[torch.dtype] = ALL,
) -> OperatorRow:
    return operator_row(name, demands or tied(), dtypes, *constraints, lower=lower, computes=False)


_FOUR: Final = rank_at_most(4, "the shaders have four dimensions.")

ROWS: Final[tuple[OperatorRow, ...]] = (
    *(_movement(name, _view, demands=_view_memory) for name in ("view", "squeeze.dims", "unsqueeze")),
    _movement("permute", _permute),
    _movement("select.int", _select),
    _movement("slice.Tensor", _slice),
    _movement("expand", _expand),
    _movement("cat", _cat, _FOUR, same_dtypes("the runtime does not promote."), dtypes=NUMBERS),
    _movement("split_with_sizes", _split, _FOUR),
    _movement("flip", _flip, HAS_AXIS, _FOUR, demands=tied(CHANNELS)),
    _movement("repeat", same_call("aten.repeat.default", "self", "repeats"), _FOUR),
    _movement(
        "constant_pad_nd",
        _pad,
        _FOUR,
        Constraint("argument", "Padding is not negative.", _cropped),
    ),
)
