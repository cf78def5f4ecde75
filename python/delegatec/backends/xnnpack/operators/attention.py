# SPDX-License-Identifier: Apache-2.0
"""Scaled dot product attention, without torch's tests for fully masked rows.

torch defines attention on such a row as zero. Here, masked scores are the lowest finite float, whose weight
is zero if the row has another score; and the result is multiplied by "this row has another score", which
depends on the mask alone and is shared by all layers with the same mask.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from delegatec_schemas.xnnpack_graph import Operation
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.xnnpack.building.bool_emulation import is_infinity, negated
from delegatec.backends.xnnpack.building.causal import causal
from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.heads import Mask, attention_of_heads, parts_of_heads
from delegatec.backends.xnnpack.building.operations import (
    binary,
    clamp,
    converted,
    multiplied,
    reshaped,
    softmax_of_rows,
)
from delegatec.backends.xnnpack.building.reductions import sum_of
from delegatec.backends.xnnpack.building.views import stacked
from delegatec.backends.xnnpack.operators.row import Constraint, OperatorRow, operator_row
from delegatec.backends.xnnpack.operators.rules import FLOATS_OR_BOOLS
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.legalize.constraints import argument
from delegatec.edge.symbols import is_dynamic

_ATTENTION: Final = overload("scaled_dot_product_attention")


def _attention(b: GraphBuilder, node: Node) -> None:
    """Computes softmax(query @ key^T * scale + mask) @ value; heads that share keys are rows of one head."""
    bound = bind(node)
    query, key, value = (b.of(bound[name]) for name in ("query", "key", "value"))
    *outer, rows, depth = b.shape_of(query)
    scale = depth**-0.5 if bound["scale"] is None else bound["scale"]
    parts = parts_of_heads(b, query, key, value, is_divided=_divides_heads(node))
    if parts is not None:
        mask = _mask(b, node, *parts[0][:2])
        b.alias(node, stacked(b, attention_of_heads(b, parts, scale, mask), len(outer) - 1))
        return
    if scale != 1:
        query = binary(b, Operation.Multiply, query, float(scale))
    heads = _groups(node)
    if heads is not None and _is_masked(node) and len(_varying(node)) > 1:
        # the heads of a group are a dimension of all values: scores with two dynamic sizes are not split
        query = reshaped(b, query, [*outer[:-1], *heads, rows, depth])
        key, value = (_with_group(b, id) for id in (key, value))
        heads = None
    if heads is not None:
        query = reshaped(b, query, [*outer[:-1], heads[0], heads[1] * rows, depth])
    scores = multiplied(b, query, key, is_transposed=True)
    joined = b.shape_of(scores)
    mask = _mask(b, node, query, key)
    is_split = heads is not None and mask != Mask()
    split = [*outer[:-1], *(heads or ()), rows]
    if is_split:
        scores = reshaped(b, scores, [*split, joined[-1]])
    if mask.limit is not None:
        scores = binary(b, Operation.Minimum, scores, _for_heads(b, mask.limit, heads))
    if mask.shift is not None:
        scores = binary(b, Operation.Add, scores, _for_heads(b, mask.shift, heads))
    weights = softmax_of_rows(b, scores)
    if mask.kept is not None:
        weights = binary(b, Operation.Multiply, weights, _for_heads(b, mask.kept, heads))
    result = multiplied(b, reshaped(b, weights, joined), value)
    if mask.alive is not None:
        if is_split:
            result = reshaped(b, result, [*split, b.shape_of(result)[-1]])
        result = binary(b, Operation.Multiply, result, _for_heads(b, mask.alive, heads))
    b.alias(node, reshaped(b, result, node.meta["val"].shape))


def _groups(node: Node) -> tuple[int, int] | None:
    """Returns the number of heads of keys, and of queries for each; None if there are equally many."""
    bound = bind(node)
    if not bound["enable_gqa"]:
        return None
    queries, keys = (shape_of(bound[name])[-3] for name in ("query", "key"))
    return None if queries == keys else (keys, queries // keys)


def _with_group(b: GraphBuilder, id: int) -> int:
    """[.., heads, rows, depth] as [.., heads, 1, rows, depth]."""
    shape = b.shape_of(id)
    return reshaped(b, id, [*shape[:-2], 1, *shape[-2:]])


def _for_heads(b: GraphBuilder, mask: int, heads: tuple[int, int] | None) -> int:
    """Returns a mask for scores whose heads are two dimensions."""
    shape = b.shape_of(mask)
    if heads is None or len(shape) < 3:
        return mask
    two = (1, 1) if shape[-3] == 1 else heads
    return reshaped(b, mask, [*shape[:-3], *two, *shape[-2:]])


def _mask(b: GraphBuilder, node: Node, query: int, key: int) -> Mask:
    bound, dtype = bind(node), dtype_of(node)
    mask = bound["attn_mask"]
    if bound["is_causal"] and is_dynamic([b.shape_of(query)[-2], b.shape_of(key)[-2]]):
        # each row keeps the first score
        kept = causal(b, query, key, len(b.shape_of(query)))
        return Mask(b.shared(("limit", kept), lambda: _limit(b, kept)))
    if bound["is_causal"]:
        rows, columns = shape_of(bound["query"])[-2], shape_of(bound["key"])[-2]
        # the diagonal is kept, so that no row is fully masked
        triangle = torch.ones(rows, columns, dtype=torch.bool).tril()
        return Mask(b.shared(("causal", rows, columns, dtype), lambda: _constant_limit(b, triangle, dtype)))
    if mask is None:
        return Mask()
    known = b.constant_value(mask)
    if known is not None:
        return _constant_mask(b, mask, known, dtype)
    given, lowest = converted(b, b.of(mask), dtype), torch.finfo(dtype).min
    if dtype_of(mask) == torch.bool:
        limit = b.shared(("limit", given), lambda: _limit(b, given))
        return Mask(limit, None, *_selection(b, given))
    if b.facts.of(mask).low > -math.inf:
        return Mask(shift=given)
    finite = b.shared(("finite", given), lambda: negated(b, is_infinity(b, given, -1)))
    shift = b.shared(("shift", given), lambda: clamp(b, given, lowest, math.inf))
    return Mask(None, shift, *_selection(b, finite))


def _selection(b: GraphBuilder, kept: int) -> tuple[int | None, int | None]:
    """Returns `alive` and `kept` of a mask."""
    return (None, kept) if is_dynamic(b.shape_of(kept)[-1:]) else (_alive(b, kept), None)


def _limit(b: GraphBuilder, kept: int) -> int:
    """Emits the largest float for one, and the lowest for zero."""
    sign = binary(b, Operation.Subtract, binary(b, Operation.Multiply, kept, 2.0), 1.0)
    return binary(b, Operation.Multiply, sign, torch.finfo(b.dtype_of(kept)).max)


def _alive(b: GraphBuilder, kept: int) -> int:
    """Emits whether a row contains a one."""

    def make() -> int:
        return clamp(b, sum_of(b, kept, [len(b.shape_of(kept)) - 1]), 0.0, 1.0)

    return b.shared(("alive", kept), make)


def _constant_limit(b: GraphBuilder, kept: torch.Tensor, dtype: torch.dtype) -> int:
    most = torch.finfo(dtype).max
    return b.constant(torch.where(kept, most, -most).to(dtype), dtype)


def _constant_mask(b: GraphBuilder, mask: Node, known: torch.Tensor, dtype: torch.dtype) -> Mask:
    """Returns the mask of a constant."""
    is_bool = known.dtype == torch.bool
    kept = known if is_bool else known > -math.inf
    limit = shift = alive = None
    if is_bool and kept.all():
        return Mask()
    if is_bool:
        limit = b.shared(("limit", mask, dtype), lambda: _constant_limit(b, kept, dtype))
    else:
        least = torch.finfo(dtype).min
        finite = known.clamp(min=least)
        shift = b.constant(finite, dtype, mask, "finite")
    rows = kept.any(-1, keepdim=True)
    if not rows.all():
        alive = b.constant(rows.to(dtype), dtype, mask, "alive")
    return Mask(limit, shift, alive)


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


_RULES: Final = (
    Constraint("dtype", "Operands have one dtype: XNNPACK does not promote.", _unlike),
    Constraint(
        "shape",
        "Scores have at most six dimensions, and a reshape changes one dynamic size: the runtime infers one.",
        _shapes,
    ),
    argument("dropout_p", lambda value: value == 0, "dropout_p is 0: the delegate computes inference only."),
)

ROWS: Final[tuple[OperatorRow, ...]] = (
    operator_row(
        _ATTENTION,
        _attention,
        *_RULES,
        dtypes=FLOATS_OR_BOOLS,
        resizes=True,
        preserved=True,
        note="heads that share keys are rows of one head; a masked score is the lowest float",
    ),
)
