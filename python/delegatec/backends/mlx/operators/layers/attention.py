# SPDX-License-Identifier: Apache-2.0
"""Attention. ATen's result for a row whose elements are all masked is zero; MLX's is not specified."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.mlx.building.graph_builder import GraphBuilder
from delegatec.backends.mlx.building.moves import sliced
from delegatec.backends.mlx.building.values import Array, Int
from delegatec.backends.mlx.operators.layers.cached_attention import filled_rows
from delegatec.backends.mlx.operators.layers.runtime_cache import attend
from delegatec.backends.mlx.operators.row import Constraint, operator_row
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.legalize.constraints import operand_dtypes
from delegatec.edge.symbols import sizes_key

_OPERANDS: Final = ("query", "key", "value")


def _attention(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    depth = shape_of(bound["query"])[-1]
    scale = 1.0 / math.sqrt(depth) if bound["scale"] is None else float(bound["scale"])
    if node in b.layers:
        attend(b, node, b.layers[node], scale)
        return
    out = b.result(node)
    q, k, v = (b.of(bound[name]) for name in _OPERANDS)
    filled = filled_rows(b, node)
    if filled is not None:
        k, v = (filled.rows(b, bound[name]) for name in ("key", "value"))
    if filled is not None and filled.is_causal:
        b.emit("Sdpa", q=q, k=k, v=v, out=out, scale=scale, causal=True)
        return
    if bound["is_causal"] and filled is None and sizes_key([q.shape[2]]) != sizes_key([k.shape[2]]):
        # no row attends to the others
        k, v = (
            sliced(b, each, 2, Int(0), Int(q.shape[2]), (*each.shape[:2], q.shape[2], each.shape[3]))
            for each in (k, v)
        )
    mask = _mask(b, bound["attn_mask"], len(q.shape)) if _masks(b, bound["attn_mask"]) else None
    if filled is not None and mask is not None:
        mask = filled.of(b, mask, len(mask.shape) - 1)
    alive = None if mask is None else _alive(b, bound["attn_mask"], mask)
    result = out if alive is None else b.temporary(out.shape, out.dtype)
    fields = {"q": q, "k": k, "v": v, "scale": scale, "mask": mask, "causal": bool(bound["is_causal"])}
    b.emit("Sdpa", out=result, **fields)
    if alive is not None:
        b.emit("Where", condition=alive, x=result, y=b.scalar(0, out.dtype), out=out)


def _masks(b: GraphBuilder, node: Node | None) -> bool:
    """Whether there is a mask that may mask elements."""
    return node is not None and (dtype_of(node) != torch.bool or b.facts.of(node).low < 1)


def _mask(b: GraphBuilder, node: Node, rank: int) -> Array:
    """Returns a mask of as many dimensions as the operands."""
    mask = b.of(node)
    if len(mask.shape) in (2, rank):  # the runtime adds dimensions to matrices
        return mask
    shape = (*[1] * (rank - len(mask.shape)), *mask.shape)

    def make() -> Array:
        wide = b.temporary(shape, mask.dtype)
        b.emit("Reshape", x=mask, out=wide, shape=b.shape(shape))
        return wide

    return b.shared(("mask", mask), make)


def _alive(b: GraphBuilder, node: Node, mask: Array) -> Array | None:
    """Returns which rows of a mask have an element that is not masked; None if all are known to."""
    known = b.constant_value(node)
    if known is not None and _allowed(known).any(-1).all():
        return None
    if mask.dtype != torch.bool and b.facts.of(node).low > -math.inf:
        return None

    def make() -> Array:
        allowed = mask
        if mask.dtype != torch.bool:
            allowed = b.temporary(mask.shape, torch.bool)
            b.emit("NotEqual", a=mask, b=b.scalar(-math.inf, mask.dtype), out=allowed)
        rows = b.temporary((*mask.shape[:-1], 1), torch.bool)
        b.emit("Any", x=allowed, out=rows, axes=[len(mask.shape) - 1], keepdims=True)
        return rows

    return b.shared(("alive", mask), make)


def _allowed(mask: torch.Tensor) -> torch.Tensor:
    return mask if mask.dtype == torch.bool else mask > -math.inf


def _shapes(node: Node, _: object) -> str | None:
    bound = bind(node)
    query, key, value = (tuple(bound[name].meta["val"].shape) for name in _OPERANDS)
    shapes = ", ".join(str([str(size) for size in each]) for each in (query, key, value))
    if not len(query) == len(key) == len(value) == 4:
        return f"operands of shapes {shapes}"
    if sizes_key(query[:1]) != sizes_key(key[:1]) or sizes_key(key[:3]) != sizes_key(value[:3]):
        return f"operands of shapes {shapes}"
    heads, groups = query[1], key[1]
    if not (isinstance(heads, int) and isinstance(groups, int)) or heads % groups:
        return f"operands of shapes {shapes}"
    return "heads differ" if heads != groups and not bound["enable_gqa"] else None


def _arguments(node: Node, _: object) -> str | None:
    bound = bind(node)
    if bound["dropout_p"]:
        return f"dropout_p is {bound['dropout_p']}"
    depth = bound["query"].meta["val"].shape[-1]
    if bound["scale"] is None and not isinstance(depth, int):
        return f"scale is of a depth of {depth} elements"
    rows, columns = (bound[name].meta["val"].shape[-2] for name in ("query", "key"))
    is_static = isinstance(rows, int) and isinstance(columns, int)
    is_shorter = is_static and rows < columns
    if bound["is_causal"] and sizes_key([rows]) != sizes_key([columns]) and not is_shorter:
        return f"is_causal of {rows} rows and {columns} columns"
    return None


def _mask_dtype(node: Node, _: object) -> str | None:
    mask: Any = bind(node)["attn_mask"]
    if mask is None or dtype_of(mask) in (torch.bool, dtype_of(node)):
        return None
    return f"a mask of {dtype_of(mask)} for values of {dtype_of(node)}"


ROWS: Final = (
    operator_row(
        "scaled_dot_product_attention",
        _attention,
        operand_dtypes(
            {torch.float32, torch.float16, torch.bfloat16, torch.bool}, "it is computed in floating point."
        ),
        Constraint("dtype", "The mask is bool, or of the dtype of the values.", _mask_dtype),
        Constraint(
            "shape",
            "Queries are [batch, heads, rows, depth]; keys and values have one batch and length, and a "
            "number of heads that divides that of queries.",
            _shapes,
        ),
        Constraint(
            "argument",
            "dropout_p is 0; scale is given, or the depth is static; is_causal only with as many rows as "
            "columns, or a smaller static number: the runtime aligns the last ones.",
            _arguments,
        ),
        note="rows whose elements may all be masked are replaced by zeros",
        preserved=True,
    ),
)
