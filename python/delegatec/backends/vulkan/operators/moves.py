# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements, or only change the shape."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.common.sizes import is_computable
from delegatec.backends.vulkan.building.graph_builder import GraphBuilder
from delegatec.backends.vulkan.dtypes import ALL, NUMERIC
from delegatec.backends.vulkan.memory.demands import Demands, Group, IsConstant, tied
from delegatec.backends.vulkan.memory.representation import ANY, CHANNELS
from delegatec.backends.vulkan.memory.sizes import shape_of
from delegatec.backends.vulkan.operators.positions import never_negative, selected, sliced
from delegatec.backends.vulkan.operators.row import (
    SHAPED,
    Constraint,
    Lower,
    OperatorRow,
    operator_row,
    resizing,
    same_call,
)
from delegatec.edge.arguments import bind, dtype_of, positive
from delegatec.edge.legalize.constraints import HAS_AXIS, rank_at_most, same_dtypes
from delegatec.edge.symbols import sizes_key


def _view_memory(node: Node, _: IsConstant) -> Sequence[Group]:
    """A view copies between any layouts of a storage."""
    return Group(ANY, (bind(node)["self"],)), Group(ANY, (), (0,), same_storage_as=0)


def _view(b: GraphBuilder, node: Node) -> None:
    sizes = list(node.meta["val"].shape)
    if sum(not isinstance(size, int) for size in sizes) == 1:
        # the runtime infers one size
        sizes = [size if isinstance(size, int) else -1 for size in sizes]
    b.call("aten.view_copy.default", b.of(bind(node)["self"]), b.sizes(sizes), b.result(node))


def _permute(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    dims = b.integers([positive(dim, len(bound["dims"])) for dim in bound["dims"]])
    b.call("aten.permute_copy.default", b.of(bound["self"]), dims, b.result(node))


def _select(b: GraphBuilder, node: Node) -> None:
    source = bind(node)["self"]
    dim = positive(bind(node)["dim"], len(shape_of(source)))
    args = (b.of(source), b.scalar(dim), b.size(selected(node)), b.result(node))
    b.call("aten.select_copy.int", *args)


def _slice(b: GraphBuilder, node: Node) -> None:
    source, step = bind(node)["self"], bind(node)["step"]
    dim = positive(bind(node)["dim"], len(shape_of(source)))
    start, end = sliced(node)
    # the end of the dimension, if it varies, is the default
    is_open = sizes_key([end]) == sizes_key([source.meta["val"].shape[dim]]) and not isinstance(end, int)
    last = b.null() if is_open else b.size(end)
    args = (b.of(source), b.scalar(dim), b.size(start), last, b.scalar(step), b.result(node))
    b.call("aten.slice_copy.Tensor", *args)


def _expand(b: GraphBuilder, node: Node) -> None:
    source, sizes = bind(node)["self"], list(node.meta["val"].shape)
    old = [1] * (len(sizes) - len(shape_of(source))) + list(source.meta["val"].shape)
    # -1 keeps a size
    sizes = [
        -1 if not isinstance(size, int) and sizes_key([size]) == sizes_key([before]) else size
        for size, before in zip(sizes, old, strict=True)
    ]
    b.call("aten.expand_copy.default", b.of(source), b.sizes(sizes), b.scalar(False), b.result(node))


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
    negative = [each for each in bind(node)["pad"] if not isinstance(each, Node) and each < 0]
    return f"padding of {negative[0]}" if negative else None


def _pad(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    value = b.fill(bound["value"] or 0, dtype_of(node))
    b.call(
        "aten.constant_pad_nd.default", b.of(bound["self"]), b.integers(bound["pad"]), value, b.result(node)
    )


def _index_problem(node: Node) -> str | None:
    index, size = selected(node), bind(node)["self"].meta["val"].shape[bind(node)["dim"]]
    is_known = is_computable(index) and never_negative(index) and never_negative(size - index - 1)
    return None if is_known else f"the index {index} of {size} elements"


def _slice_problem(node: Node) -> str | None:
    if isinstance(bind(node)["step"], Node):
        return "a dynamic step"
    (start, end), size = sliced(node), bind(node)["self"].meta["val"].shape[bind(node)["dim"]]
    is_known = is_computable(start) and is_computable(end)
    if is_known and never_negative(start) and never_negative(size - end):
        return None
    return f"elements from {start} to {end} of {size}"


def _movement(
    name: str,
    lower: Lower,
    *constraints: Constraint,
    demands: Demands | None = None,
    dtypes: Collection[torch.dtype] = ALL,
    resizes: Sequence[Constraint] | None = (),
) -> OperatorRow:
    groups = demands or tied()
    return operator_row(name, groups, dtypes, *constraints, lower=lower, computes=False, resizes=resizes)


_SELECTED: Final = resizing("The index is in range, and a sum, product or quotient of sizes.", _index_problem)
_SLICED: Final = resizing(
    "Start and end are in range, and sums, products or quotients of sizes.", _slice_problem
)
_PADDED: Final = resizing(
    "Padding is static: the runtime pads by constant amounts.",
    lambda node: "dynamic padding" if any(isinstance(each, Node) for each in bind(node)["pad"]) else None,
)
_FOUR: Final = rank_at_most(4, "the shaders have four dimensions.")

ROWS: Final[tuple[OperatorRow, ...]] = (
    *(
        _movement(name, _view, demands=_view_memory, resizes=(SHAPED,))
        for name in ("view", "squeeze.dims", "unsqueeze")
    ),
    _movement("permute", _permute),
    _movement("select.int", _select, resizes=(_SELECTED,)),
    _movement("slice.Tensor", _slice, resizes=(_SLICED,)),
    _movement("expand", _expand, resizes=(SHAPED,)),
    _movement("cat", _cat, _FOUR, same_dtypes("the runtime does not promote."), dtypes=NUMERIC),
    _movement("split_with_sizes", _split, _FOUR, resizes=None),
    _movement("flip", _flip, HAS_AXIS, _FOUR, demands=tied(CHANNELS)),
    _movement("repeat", same_call("aten.repeat.default", "self", "repeats"), _FOUR),
    _movement(
        "constant_pad_nd",
        _pad,
        _FOUR,
        Constraint("argument", "Padding is not negative.", _cropped),
        resizes=(_PADDED,),
    ),
)
