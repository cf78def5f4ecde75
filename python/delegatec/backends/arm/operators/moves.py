# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements, or only change the shape."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.building.operation import Value
from delegatec.backends.arm.dtypes import ALL, TO_TOSA
from delegatec.backends.arm.operators.conversion import converted
from delegatec.backends.arm.operators.row import Constraint, operator_row
from delegatec.edge.arguments import bind, dtype_of, positive, shape_of, short_name
from delegatec.edge.legalize.constraints import argument

_RESHAPES: Final = ("view", "unsqueeze", "squeeze.dims")


def _reshape(b: GraphBuilder, node: Node) -> None:
    b.alias(node, b.reshaped(b.of(bind(node)["self"]), shape_of(node)))


def _permute(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source, rank = bound["self"], len(shape_of(bound["self"]))
    perms = [positive(dim, rank) for dim in bound["dims"]]
    moved = b.transposed(source, perms) if b.is_known(source) else b.permuted(b.of(source), perms)
    b.alias(node, moved)


def _cat(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    kind = TO_TOSA[dtype_of(node)]
    operands = [converted(b, b.of(each), kind) for each in bound["tensors"]]
    b.result(node, "CONCAT", *operands, axis=positive(bound["dim"], len(shape_of(node))))


def _converts_bytes(node: Node, _: object) -> str | None:
    is_mixed = any(dtype_of(each) == torch.uint8 != dtype_of(node) for each in bind(node)["tensors"])
    return f"uint8 to {short_name(dtype_of(node))}" if is_mixed else None


def _split(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source = b.of(bound["self"])
    dim = positive(bound["dim"], len(source.shape))
    ends = [0, *itertools.accumulate(bound["split_sizes"])]
    for user in node.users:
        index: Any = user.args[1]
        starts = [ends[index] if each == dim else 0 for each in range(len(source.shape))]
        b.alias(user, sliced(b, source, starts, shape_of(user)))


def sliced(b: GraphBuilder, value: Value, start: Sequence[int], sizes: Sequence[int]) -> Value:
    """Returns a range of elements in each dimension."""
    if tuple(sizes) == value.shape:
        return value
    return b.emit("SLICE", value, b.shape(start), b.shape(sizes), shape=sizes)


def tiled(b: GraphBuilder, value: Value, sizes: Sequence[int]) -> Value:
    """Returns a value repeated up to sizes, which are multiples of those that it has."""
    repeats = [size // own for size, own in zip(sizes, value.shape, strict=True)]
    if set(repeats) <= {1}:
        return value
    return b.emit("TILE", value, b.shape(repeats), shape=sizes)


def _slice(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source = b.of(bound["self"])
    dim = positive(bound["dim"], len(source.shape))
    start, _, _ = slice(bound["start"], bound["end"]).indices(source.shape[dim])
    starts = [start if each == dim else 0 for each in range(len(source.shape))]
    b.alias(node, sliced(b, source, starts, shape_of(node)))


def _select(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source = b.of(bound["self"])
    dim = positive(bound["dim"], len(source.shape))
    index = positive(bound["index"], source.shape[dim])
    starts = [index if each == dim else 0 for each in range(len(source.shape))]
    sizes = [1 if each == dim else size for each, size in enumerate(source.shape)]
    b.alias(node, b.reshaped(sliced(b, source, starts, sizes), shape_of(node)))


def _expand(b: GraphBuilder, node: Node) -> None:
    sizes = shape_of(node)
    b.alias(node, tiled(b, b.ranked(b.of(bind(node)["self"]), len(sizes)), sizes))


def _pad(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source = b.of(bound["self"])
    pairs = [bound["pad"][first : first + 2] for first in range(0, len(bound["pad"]), 2)]
    pairs = [[0, 0]] * (len(source.shape) - len(pairs)) + pairs[::-1]
    starts = [max(-before, 0) for before, _ in pairs]
    sizes = [
        size - max(-before, 0) - max(-after, 0)
        for size, (before, after) in zip(source.shape, pairs, strict=True)
    ]
    kept = sliced(b, source, starts, sizes)
    amounts = [max(each, 0) for pair in pairs for each in pair]
    if any(amounts):
        value = b.scalar(bound["value"] or 0, source.dtype)
        kept = b.emit("PAD", kept, b.shape(amounts), value, shape=shape_of(node))
    b.alias(node, kept)


def _flip(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    value = b.of(bound["self"])
    for dim in sorted(positive(dim, len(value.shape)) for dim in bound["dims"] if value.shape):
        if value.shape[dim] > 1:
            value = b.emit("REVERSE", value, shape=value.shape, axis=dim)
    b.alias(node, value)


_UNIT_STEP: Final = argument("step", lambda step: step == 1, "step is 1: SLICE has no stride.")

_SIGNED: Final[Constraint] = Constraint(
    "dtype",
    "No conversion of uint8: its bytes are those of an INT8, which CAST takes as signed.",
    _converts_bytes,
)

ROWS: Final = (
    *(operator_row(name, _reshape, ALL, computes=False) for name in _RESHAPES),
    operator_row("permute", _permute, ALL, computes=False),
    operator_row("cat", _cat, ALL, _SIGNED, computes=False),
    operator_row("split_with_sizes", _split, ALL, computes=False),
    operator_row("slice.Tensor", _slice, ALL, _UNIT_STEP, computes=False),
    operator_row("select.int", _select, ALL, computes=False),
    operator_row("expand", _expand, ALL, computes=False),
    operator_row("repeat", _expand, ALL, computes=False),
    operator_row("constant_pad_nd", _pad, ALL, computes=False),
    operator_row("flip", _flip, ALL, computes=False),
)
