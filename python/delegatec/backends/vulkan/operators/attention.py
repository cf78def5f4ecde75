# SPDX-License-Identifier: Apache-2.0
"""Attention. The runtime's operator computes scores in float32, also of float16."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from torch.fx import Node

from delegatec.backends.vulkan.dtypes import FLOATS
from delegatec.backends.vulkan.memory.demands import Group, IsConstant, tensor_operands, tied
from delegatec.backends.vulkan.memory.representation import BUFFER, WIDTH
from delegatec.backends.vulkan.memory.representation import ROWS as ROW_PACKED
from delegatec.backends.vulkan.memory.workgroups import MOST_WORKGROUPS
from delegatec.backends.vulkan.operators.row import Constraint, OperatorRow, operator_row, same_call
from delegatec.backends.vulkan.operators.runtime import RUNTIME
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.legalize import constraint
from delegatec.edge.legalize.constraints import same_dtypes

_TEXEL: Final = 4


def _memory(node: Node, _: IsConstant) -> Sequence[Group]:
    """Scores have the storage of the operands; rows in buffers are whole texels."""
    sizes = shape_of(bind(node)["key"])[-2:]
    allowed = WIDTH if any(size % _TEXEL for size in sizes) else WIDTH | BUFFER
    return (Group(allowed, tensor_operands(node), (0,)),)


def _shapes(node: Node, _: object) -> str | None:
    bound = bind(node)
    query, key, value, result = (shape_of(each) for each in (*(bound[name] for name in _OPERANDS), node))
    if len(query) != 4 or key != (*query[:2], key[-2], query[-1]) or value != key or result != query:
        return f"operands of shapes {list(query)}, {list(key)} and {list(value)}"
    *heads, rows, _ = query
    if max(math.prod(heads), rows) > MOST_WORKGROUPS:
        return f"{math.prod(heads)} matrices of {rows} rows"
    mask = bound["attn_mask"]
    if mask is not None:
        broadcast = ((1, size) for size in (*heads, rows))
        padded = (*[1] * (4 - len(shape_of(mask))), *shape_of(mask))
        sizes = (*broadcast, (key[-2],))
        if any(size not in allowed for size, allowed in zip(padded, sizes, strict=True)):
            return f"a mask of shape {list(shape_of(mask))}"
    return None


def _arguments(node: Node, _: object) -> str | None:
    bound = bind(node)
    return next((f"{name} is {bound[name]}" for name in _ABSENT if bound[name]), None)


def _infinite_mask(node: Node, facts: Facts) -> str | None:
    mask = bind(node)["attn_mask"]
    return "the mask may be infinite" if mask is not None and facts.of(mask).low == -math.inf else None


_OPERANDS: Final = ("query", "key", "value")
_ABSENT: Final = ("dropout_p", "is_causal", "enable_gqa")

ROWS: Final[tuple[OperatorRow, ...]] = (
    operator_row(
        "scaled_dot_product_attention",
        _memory,
        FLOATS,
        same_dtypes("masks are added to the scores."),
        Constraint(
            "shape",
            "Keys and values have one shape [batch, heads, columns, depth], queries "
            "[batch, heads, rows, depth] and the mask [1 or batch, 1 or heads, 1 or rows, columns].",
            _shapes,
        ),
        Constraint(
            "argument",
            "dropout_p is 0, is_causal and enable_gqa are false: the runtime has no others.",
            _arguments,
        ),
        lower=same_call("et_vk.sdpa.default", *_OPERANDS, "attn_mask", "scale"),
        preserved=True,
        known=(
            constraint.Constraint(
                "range", "The mask is finite: a row of only minus infinity would be NaN.", _infinite_mask
            ),
        ),
    ),
    operator_row(
        RUNTIME.apply_rotary_emb_hf.default,
        tied(ROW_PACKED),
        FLOATS,
        lower=same_call("et_vk.apply_rotary_emb_hf.default"),
        note="rotary position embeddings of queries and keys, whose halves of rows are rotated",
    ),
)
