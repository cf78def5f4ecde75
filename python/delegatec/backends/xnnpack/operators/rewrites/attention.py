# SPDX-License-Identifier: Apache-2.0
"""Scaled dot product attention, without torch's tests for fully masked rows.

torch defines attention on such a row as zero. Here, masked scores are the lowest finite float, whose weight
is zero if the row has another score; and the result is multiplied by "this row has another score", which
depends on the mask alone.

Heads that share keys are rows of one head. If operands are stacks of heads, see `building/views.py`, each
head is computed alone: it is as fast as all at once, and needs no views, which cannot express that both batch
and length are dynamic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.backends.xnnpack.operators.rewrites.masks import Mask, mask_of
from delegatec.edge.arguments import bind, broadcast, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.constraints import argument
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import Value, value_of
from delegatec.edge.symbols import is_dynamic

aten = torch.ops.aten

_MOVES: Final = (aten.permute.default, aten.select.int, aten.slice.Tensor, aten.squeeze.dims)


# ---- softmax(query @ key^T * scale + mask) @ value -------------------------------------------------------


def _attention(builder: Builder, node: Node) -> Node:
    bound = bind(node)
    query, key, value = (value_of(builder, bound[name]) for name in ("query", "key", "value"))
    scale = float(query.shape[-1] ** -0.5 if bound["scale"] is None else bound["scale"])
    if _is_of_heads(node):
        return _of_heads(query, key, value, scale, mask_of(builder, node, query.rank - 1)).node
    query = _scaled(query, scale)
    *outer, rows, depth = query.shape
    heads = _groups(node)
    if heads is not None and _is_masked(node) and len(_varying(node)) > 1:
        # the heads of a group are a dimension of all values: scores with two dynamic sizes are not split
        query = query.view(*outer[:-1], *heads, rows, depth)
        key, value = (each.view(*each.shape[:-2], 1, *each.shape[-2:]) for each in (key, value))
        heads = None
    if heads is None:
        return _of_rows(query, key, value, mask_of(builder, node, query.rank)).view(*shape_of(node)).node
    mask = mask_of(builder, node, query.rank).map(lambda each: _for_heads(each, heads))
    joined, split = (*outer[:-1], heads[0], heads[1] * rows), (*outer[:-1], *heads, rows)
    grouped = query.view(*joined, depth)
    if mask == Mask():
        return _of_rows(grouped, key, value, mask).view(*shape_of(node)).node
    scores = _product(grouped, key, XNNPACK.matmul_transposed.default)
    weights = _weights(scores.view(*split, scores.shape[-1]), mask)
    result = _product(weights.view(*scores.shape), value, aten.matmul.default)
    return _alive(result.view(*split, result.shape[-1]), mask).view(*shape_of(node)).node


def _of_rows(query: Value, key: Value, value: Value, mask: Mask) -> Value:
    weights = _weights(_product(query, key, XNNPACK.matmul_transposed.default), mask)
    return _alive(_product(weights, value, aten.matmul.default), mask)


def _of_heads(query: Value, key: Value, value: Value, scale: float, mask: Mask) -> Value:
    """Computes each head of operands [.., heads, rows, depth]."""
    heads, groups = query.shape[-3], key.shape[-3]

    def result(head: int) -> Value:
        shared = head // (heads // groups)
        return _of_rows(
            _scaled(_of_head(query, head), scale),
            _of_head(key, shared),
            _of_head(value, shared),
            mask.map(lambda each: _of_head(each, head)),
        )

    results = [result(head) for head in range(heads)]
    shape = (*results[0].shape[:-2], heads, *results[0].shape[-2:])
    val = query.builder.empty(shape, query.dtype)
    nodes = [each.node for each in results]
    return Value(query.builder, query.builder.call(aten.stack.default, nodes, len(shape) - 3, val=val))


def _of_head(x: Value, head: int) -> Value:
    """Returns one head's part of operands or of a mask, which may be broadcast over the heads."""
    if x.rank < 3:
        return x
    shape = (*x.shape[:-3], *x.shape[-2:])
    index = 0 if isinstance(x.shape[-3], int) and x.shape[-3] == 1 else head
    call = x.builder.call(aten.select.int, x.node, x.rank - 3, index, val=x.builder.empty(shape, x.dtype))
    return Value(x.builder, call)


def _weights(scores: Value, mask: Mask) -> Value:
    if mask.limit is not None:
        scores = scores.minimum(mask.limit)
    if mask.shift is not None:
        scores = scores + mask.shift
    weights = scores.softmax(scores.rank - 1)
    return weights if mask.kept is None else weights * mask.kept


def _alive(result: Value, mask: Mask) -> Value:
    return result if mask.alive is None else result * mask.alive


def _scaled(x: Value, scale: float) -> Value:
    return x if scale == 1 else x * scale


def _product(x: Value, y: Value, target: Callable[..., Any]) -> Value:
    """Returns a product of matrices, whose other dimensions broadcast."""
    columns = y.shape[-1 if target is aten.matmul.default else -2]
    shape = (*broadcast(x.shape[:-2], y.shape[:-2]), x.shape[-2], columns)
    return Value(x.builder, x.builder.call(target, x.node, y.node, val=x.builder.empty(shape, x.dtype)))


def _for_heads(mask: Value, heads: Sequence[int]) -> Value:
    """Returns a mask for scores whose heads are two dimensions."""
    if mask.rank < 3:
        return mask
    two = (1, 1) if mask.shape[-3] == 1 else heads
    return mask.view(*mask.shape[:-3], *two, *mask.shape[-2:])


# ---- the form of the operands ----------------------------------------------------------------------------


def _groups(node: Node) -> tuple[int, int] | None:
    """Returns the number of heads of keys, and of queries for each; None if there are equally many."""
    bound = bind(node)
    if not bound["enable_gqa"]:
        return None
    queries, keys = (shape_of(bound[name])[-3] for name in ("query", "key"))
    return None if queries == keys else (keys, queries // keys)


def _is_of_heads(node: Node) -> bool:
    """Whether each head is computed alone: sizes are dynamic, and operands stacks, or groups of heads."""
    bound = bind(node)
    operands = [bound[name] for name in ("query", "key", "value")]
    if min(len(shape_of(each)) for each in operands) < 3:
        return False
    return _divides_heads(node) or all(map(_is_stack, operands))


def _is_stack(node: Node) -> bool:
    """Whether a value is a view that splits a dimension while several sizes are dynamic."""
    while node.target in _MOVES:
        node = node.all_input_nodes[0]
    if node.target is not aten.view.default:
        return False
    shape, old = node.meta["val"].shape, bind(node)["self"].meta["val"].shape
    return len(shape) > len(old) and sum(not isinstance(size, int) for size in shape) > 1


def _divides_heads(node: Node) -> bool:
    """Whether groups of heads can neither be rows of one head nor a dimension: several sizes are dynamic."""
    if _groups(node) is None or len(_varying(node)) < 2:
        return False
    bound = bind(node)
    shapes = [bound[name].meta["val"].shape for name in ("query", "key", "value")]
    mask = () if bound["attn_mask"] is None else bound["attn_mask"].meta["val"].shape[:-2]
    each = [[size for size in shape if not isinstance(size, int)] for shape in shapes]
    has_one = _is_masked(node) and len(shapes[0]) == 4 and max(map(len, each)) < 2
    return not (has_one and all(isinstance(size, int) and size == 1 for size in mask))


def _is_masked(node: Node) -> bool:
    bound = bind(node)
    return bool(bound["is_causal"]) or bound["attn_mask"] is not None


def _varying(node: Node) -> list[object]:
    """Returns the dynamic sizes of the result, and of scores if these are masked."""
    columns = bind(node)["key"].meta["val"].shape[-2:-1] if _is_masked(node) else ()
    return [size for size in (*node.meta["val"].shape, *columns) if not isinstance(size, int)]


# ---- constraints -----------------------------------------------------------------------------------------


def _unlike(node: Node, _: object) -> str | None:
    """The kernels of torch compute in one dtype, which a float mask has, too."""
    bound = bind(node)
    dtypes = {dtype_of(bound[name]) for name in ("query", "key", "value")}
    mask = bound["attn_mask"]
    if mask is not None and dtype_of(mask) != torch.bool:
        dtypes.add(dtype_of(mask))
    return f"operands of {len(dtypes)} dtypes" if len(dtypes) > 1 else None


def _shapes(node: Node, _: object) -> str | None:
    bound = bind(node)
    shapes = [bound[name].meta["val"].shape for name in ("query", "key", "value")]
    if bound["scale"] is None and is_dynamic(shapes[0][-1:]):
        return "a scale that follows from a dynamic size"
    if bound["enable_gqa"] and is_dynamic([size for shape in shapes for size in shape[-3:-2]]):
        return "grouped heads with a dynamic number of heads"
    if min(map(len, shapes)) < 2 or len(node.meta["val"].shape) > (5 if _groups(node) else 6):
        return f"operands of rank {len(shapes[0])}"
    is_divided = _divides_heads(node) and len(shapes[0]) > 4
    return "several dynamic sizes in groups of heads" if is_divided else None


REWRITES: Final = (
    Rewrite(
        aten.scaled_dot_product_attention.default,
        _attention,
        (
            Constraint("dtype", "Operands have one dtype: XNNPACK does not promote.", _unlike),
            Constraint(
                "shape",
                "Scores have at most six dimensions, and a reshape changes one dynamic size: the runtime "
                "infers one.",
                _shapes,
            ),
            argument(
                "dropout_p", lambda value: value == 0, "dropout_p is 0: the delegate computes inference only."
            ),
        ),
        note="heads that share keys are rows of one head; a masked score is the lowest float",
        preserved=True,
    ),
)
