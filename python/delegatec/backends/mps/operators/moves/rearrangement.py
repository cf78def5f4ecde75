# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements by several operations."""

from __future__ import annotations

import math
from typing import Final

import torch
from delegatec_schemas.mps_graph import Operation
from torch.fx import Node

from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import cat, full, operand, table
from delegatec.backends.mps.operators.family import movement
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraints import HAS_AXIS
from delegatec.edge.nodes import positive, shape_of


def _diagonal(b: GraphBuilder, node: Node) -> None:
    """Slices in row-major order: elements of a diagonal have a distance of one row and one column."""
    bound = bind(node)
    x, offset = operand(b, bound["self"]), bound["offset"]
    rank = len(x.shape)
    two = [positive(bound[name], rank) for name in ("dim1", "dim2")]
    moved = x.permute(*(dim for dim in range(rank) if dim not in two), *two)
    *outer, rows, columns = moved.shape
    start = offset if offset >= 0 else -offset * columns
    end = start + (shape_of(node)[-1] - 1) * (columns + 1) + 1
    moved.view(*outer, rows * columns).slice(len(outer), start, end, columns + 1).bind(node)


def _lower_triangle(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x = operand(b, bound["self"])
    rows = table(b, torch.arange(x.shape[-2]).view(-1, 1))
    columns = table(b, torch.arange(x.shape[-1]).view(1, -1))
    kept = (rows + bound["diagonal"] if bound["diagonal"] else rows).compare(Operation.Ge, columns)
    kept.where(x, full(b, [1], 0, x.dtype)).bind(node)


def _roll(b: GraphBuilder, node: Node) -> None:
    """Rolls dimensions, or all elements in row-major order."""
    bound = bind(node)
    x = operand(b, bound["self"])
    shape = x.shape
    turned = x if bound["dims"] else x.view(math.prod(shape))
    for dim, shift in zip(bound["dims"] or [0], bound["shifts"], strict=True):
        dim, size = positive(dim, len(turned.shape)), turned.shape[dim]
        cut = -shift % size
        if cut:
            turned = cat([turned.slice(dim, cut, size), turned.slice(dim, 0, cut)], dim)
    turned.view(*shape).bind(node)


def _pixel_shuffle(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x, factor = operand(b, bound["self"]), bound["upscale_factor"]
    *outer, channels, height, width = x.shape
    planes = x.view(math.prod(outer), channels, height, width)
    planes.pixel_shuffle(factor).view(*shape_of(node)).bind(node)


ROWS: Final = (
    movement("diagonal", _diagonal, note="a Slice of merged rows and columns"),
    movement("diagonal_copy", _diagonal),
    movement("tril", _lower_triangle),
    movement("roll", _roll, HAS_AXIS),
    movement("pixel_shuffle", _pixel_shuffle),
)
