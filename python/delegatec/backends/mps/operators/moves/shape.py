# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements, or only change the shape.

In the runtime a value of rank 0 has the shape [1], so operations that depend on the rank become a View.
"""

from __future__ import annotations

from typing import Final

from delegatec_schemas.mps_graph import (
    CatT,
    Operation,
    PermuteT,
    PixelShuffleT,
    SelectT,
    SliceT,
    SplitWithSizesT,
    SqueezeT,
    UnsqueezeT,
    ViewT,
)
from torch.fx import Node

from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.operations import reshaped
from delegatec.backends.mps.operators.family import movement
from delegatec.edge.arguments import bind, dtype_of, positive, shape_of
from delegatec.edge.legalize.constraints import rank_of


def _alias(b: GraphBuilder, node: Node) -> None:
    b.alias(node, b.of(node.all_input_nodes[0]))


def _view(b: GraphBuilder, node: Node) -> None:
    _reshape(b, Operation.View, b.of(bind(node)["self"]), node)


def _expand(b: GraphBuilder, node: Node) -> None:
    """Extends the operand's rank to that of the result first: the runtime reads one size per dimension."""
    source = b.of(bind(node)["self"])
    shape = b.type_of(source)[1]
    source = reshaped(b, source, (1,) * (len(shape_of(node)) - len(shape)) + shape)
    _reshape(b, Operation.Expand, source, node)


def _reshape(b: GraphBuilder, operation: int, source: int, node: Node) -> None:
    shape = shape_of(node)
    table = ViewT(input1Id=source, outputId=b.result(node), numDims=len(shape), shape=list(shape))
    b.emit(operation, table)


def _permute(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    perm = [positive(dim, len(bound["dims"])) for dim in bound["dims"]]
    if not perm:
        _alias(b, node)
        return
    table = PermuteT(input1Id=b.of(bound["self"]), outputId=b.result(node), numDims=len(perm), perm=perm)
    b.emit(Operation.Permute, table)


def _squeeze(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source = bound["self"]
    shape = shape_of(source)
    wanted = {positive(dim, len(shape)) for dim in bound["dim"]}
    dims = [dim for dim, size in enumerate(shape) if size == 1 and dim in wanted]
    if not dims:  # The runtime reads an empty list of dimensions as the first dimension.
        _alias(b, node)
        return
    b.emit(Operation.Squeeze, SqueezeT(input1Id=b.of(source), outputId=b.result(node), dims=dims))


def _unsqueeze(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    if not shape_of(bound["self"]):
        _view(b, node)
        return
    dim = positive(bound["dim"], len(shape_of(node)))
    b.emit(Operation.Unsqueeze, UnsqueezeT(input1Id=b.of(bound["self"]), outputId=b.result(node), dim=dim))


def _select(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source = bound["self"]
    dim = positive(bound["dim"], len(shape_of(source)))
    index = positive(bound["index"], shape_of(source)[dim])
    table = SelectT(input1Id=b.of(source), outputId=b.result(node), dim=dim, index=index)
    b.emit(Operation.Select, table)


def _slice(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source = bound["self"]
    dim = positive(bound["dim"], len(shape_of(source)))
    # ATen's bounds may be None, negative or out of range.
    start, end, _ = slice(bound["start"], bound["end"]).indices(shape_of(source)[dim])
    table = SliceT(b.of(source), b.result(node), dim, start, max(start, end), bound["step"])
    b.emit(Operation.Slice, table)


def _cat(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    ids = [b.operand(tensor, dtype_of(node)) for tensor in bound["tensors"]]
    dim = positive(bound["dim"], len(shape_of(node)))
    b.emit(Operation.Cat, CatT(inputIds=ids, outputId=b.result(node), dim=dim))


def _split(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source = bound["self"]
    dim = positive(bound["dim"], len(shape_of(source)))
    outputs = node.meta["val"]
    table = SplitWithSizesT(
        input1Id=b.of(source),
        outputIds=[b.result(node, index) for index in range(len(outputs))],
        splitSizes=[value.shape[dim] for value in outputs],
        dim=dim,
    )
    b.emit(Operation.SplitWithSizes, table)


def _pixel_shuffle(b: GraphBuilder, node: Node) -> None:
    source, factor = bind(node).values()
    table = PixelShuffleT(input1Id=b.of(source), outputId=b.result(node), upscaleFactor=factor)
    b.emit(Operation.PixelShuffle, table)


ROWS: Final = (
    movement("view", _view),
    movement("expand", _expand, note="a View first if the rank grows"),
    movement("permute", _permute),
    movement("squeeze.dims", _squeeze, note="no operation if none of the dimensions has size 1"),
    movement("unsqueeze", _unsqueeze),
    movement("select.int", _select),
    movement("slice.Tensor", _slice),
    movement("cat", _cat),
    movement("split_with_sizes", _split),
    movement("pixel_shuffle", _pixel_shuffle, rank_of("self", (4,), "MPSGraph shuffles batches of images.")),
)
