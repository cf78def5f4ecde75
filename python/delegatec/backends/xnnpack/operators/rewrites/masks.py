# SPDX-License-Identifier: Apache-2.0
"""Masks of attention as limits and addends of scores, and as factors of weights and results."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.channels_last.rewrites.images import emit
from delegatec.edge.legalize.value import Value, table, value_of
from delegatec.edge.symbols import is_dynamic, largest, sizes_key

_RADIX: Final = 16
"""Number of elements that one convolution sums."""


@dataclass(frozen=True)
class Mask:
    """The effect of a mask on scores.

    Attributes:
        limit: the upper limit of each score; the lowest finite float if it is masked.
        shift: the addend of each score.
        alive: 0 for each fully masked row, else 1.
        kept: 0 for each score that is masked, else 1, instead of `alive` for rows of dynamic length.
    """

    limit: Value | None = None
    shift: Value | None = None
    alive: Value | None = None
    kept: Value | None = None

    def map(self, function: Callable[[Value], Value]) -> Mask:
        """Applies a function to each part."""
        parts = (self.limit, self.shift, self.alive, self.kept)
        return Mask(*(None if each is None else function(each) for each in parts))


def mask_of(b: Builder, node: Node, rank: int) -> Mask:
    """Returns the mask of a call of attention; that of causal attention of dynamic sizes has the rank."""
    bound, dtype = bind(node), dtype_of(node)
    mask = bound["attn_mask"]
    if bound["is_causal"]:
        sizes = [bound[name].meta["val"].shape[-2] for name in ("query", "key")]
        # the diagonal is kept, so that no row is fully masked
        if is_dynamic(sizes):
            return Mask(_limit(_causal([value_of(b, bound[name]) for name in ("query", "key")], rank)))
        return Mask(_constant_limit(b, torch.ones(*sizes, dtype=torch.bool).tril(), dtype))
    if mask is None:
        return Mask()
    known = b.facts.constant(mask)
    if known is not None:
        return _constant_mask(b, mask, known, dtype)
    given = value_of(b, mask, dtype)
    if dtype_of(mask) == torch.bool:
        return Mask(_limit(given), None, *_selection(given))
    if b.facts.of(mask).low > -math.inf:
        return Mask(shift=given)
    lowest = torch.finfo(dtype).min
    negative = given.clamp(high=0.0)
    is_infinite = (negative.clamp(lowest) - negative).clamp(0.0, 1.0)
    return Mask(None, given.clamp(lowest), *_selection(1.0 - is_infinite))


def _selection(kept: Value) -> tuple[Value | None, Value | None]:
    """Returns `alive` and `kept` of a mask."""
    if is_dynamic(kept.shape[-1:]):
        return None, kept
    return kept.sum([kept.rank - 1], keepdim=True).clamp(0.0, 1.0), None


def _limit(kept: Value) -> Value:
    """Returns the largest float for one, and the lowest for zero."""
    return (kept * 2.0 + -1.0) * torch.finfo(kept.dtype).max


def _constant_limit(b: Builder, kept: torch.Tensor, dtype: torch.dtype) -> Value:
    most = torch.finfo(dtype).max
    return table(b, torch.where(kept, most, -most).to(dtype))


def _constant_mask(b: Builder, mask: Node, known: torch.Tensor, dtype: torch.dtype) -> Mask:
    is_bool = known.dtype == torch.bool
    kept = known if is_bool else known > -math.inf
    if is_bool and kept.all():
        return Mask()
    limit = shift = alive = None
    if is_bool:
        limit = _constant_limit(b, kept, dtype)
    else:
        shift = Value(b, b.derived(mask, known.detach().clamp(min=torch.finfo(dtype).min), dtype))
    rows = kept.any(-1, keepdim=True)
    if not rows.all():
        alive = table(b, rows.to(dtype))
    return Mask(limit, shift, alive)


# ---- causal masks of dynamic sizes -----------------------------------------------------------------------


def _causal(operands: list[Value], rank: int) -> Value:
    """Returns 1 where the position in the query is not before that in the key, else 0.

    The shape is [1, .., rows, columns]. XNNPACK has no iota, so convolutions count the positions.
    """
    own, other = (_counts(each).view(*[1] * (rank - 2), each.shape[-2], 1) for each in operands)
    ahead = own - other.permute(*range(rank - 2), rank - 1, rank - 2)
    return (ahead + 1.0).clamp(0.0, 1.0).to(operands[0].dtype)


def _counts(x: Value) -> Value:
    """Returns 1, 2, .. for the rows of a value, [1, 1, rows, 1].

    Each convolution adds preceding elements, at a distance equal to the number of elements summed so far.
    """
    rows = x.shape[-2]
    source, dim = _first_of_size(x)
    column = source.to(torch.float32)
    for other, size in enumerate(source.shape):
        if other != dim and sizes_key([size]) != (1,):
            column = column.slice(other, 0, 1)
    total = column.view(1, 1, rows, 1).clamp(1.0, 1.0)
    ones = table(x.builder, torch.ones(1, 1, 1, _RADIX))
    most, distance = largest(rows) or 1, 1
    while distance < most:
        before = (_RADIX - 1) * distance
        total = emit(
            *(NHWC.conv2d.default, total, ones, None, [1, 1], [0, 0, before, 0], [1, distance], 1),
            weight_order="OIHW",
            shape=total.shape,
        )
        distance *= _RADIX
    return total


def _first_of_size(x: Value) -> tuple[Value, int]:
    """Returns the first value with a dimension of as many elements, which calls share, and the dimension."""
    (key,) = sizes_key(x.shape[-2:-1])
    for node in x.builder.program.graph.nodes:
        val = node.meta.get("val")
        if isinstance(val, torch.Tensor) and val.dtype.is_floating_point:
            keys = sizes_key(val.shape)
            if key in keys:
                return Value(x.builder, node), keys.index(key)
    return x, x.rank - 2
