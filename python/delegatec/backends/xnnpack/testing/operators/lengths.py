# SPDX-License-Identifier: Apache-2.0
"""Attention to sequences of dynamic lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch.nn import functional as f

from delegatec.backends.common.testing import floats
from delegatec.backends.xnnpack.testing.operators.case import Case

_ROWS: Final = torch.export.Dim("rows", min=2, max=300)
_COLUMNS: Final = torch.export.Dim("columns", min=2, max=40)
_Call = tuple[torch.Tensor, ...]


def _operands(rows: int, columns: int, heads: int = 4) -> _Call:
    return (
        floats(2, 4, rows, 8) * 3,
        floats(2, heads, columns, 8, seed=1),
        floats(2, heads, columns, 8, seed=2),
    )


def _kept(rows: int, columns: int) -> torch.Tensor:
    """Returns a mask of all scores of the second row, of some of others, and of none of the first."""
    mask = floats(1, 1, rows, columns, seed=3) > 0.2
    mask[..., 0, :], mask[..., 1, :] = True, False
    return mask


def _attention(operands: Callable[[int, int], _Call], own: bool = True, **options: Any) -> Case:
    """Makes the rows dynamic, and the columns if they are not the rows."""
    pairs = ((5, 5), (300, 300), (17, 17), (2, 2)) if own else ((5, 6), (3, 40), (300, 2), (2, 17))
    columns = _ROWS if own else _COLUMNS
    first, *more = (operands(*pair) for pair in pairs)
    sizes: list[dict[int, Any]] = [{2: _ROWS}, {2: columns}, {2: columns}, {2: _ROWS, 3: columns}]
    return Case(
        lambda *args: f.scaled_dot_product_attention(*args, **options),
        first,
        "",
        sizes[: len(first)],
        more,
    )


def _causal_layer(x: torch.Tensor) -> torch.Tensor:
    """Computes two layers, which share the mask, on [batch, rows, 3 * depth]."""
    for _ in range(2):
        query, key, value = x.chunk(3, 2)
        found = f.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + torch.cat([found, found.exp(), found.neg()], 2)
    return x


def _of_words(words: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Uses the length of integers, which a delegate cannot read."""
    return x.exp().view(1, words.shape[1], 2, 2).transpose(1, 2)


CASES: Final[dict[str, Case]] = {
    "lengths-of-integers": Case(
        _of_words,
        (torch.arange(5).view(1, 5), floats(1, 5, 4)),
        "Exp Reshape Transpose",
        ({1: _ROWS}, {1: _ROWS}),
        ((torch.arange(9).view(1, 9), floats(1, 9, 4)),),
    ),
    "lengths-a-row": Case(
        lambda x: x.exp()[:, 1:2].neg(),
        (floats(1, 5, 4),),
        "Exp Slice Negate",
        ({1: _ROWS},),
        ((floats(1, 300, 4),), (floats(1, 2, 4),)),
    ),
    "lengths-plain": _attention(_operands, own=False),
    "lengths-causal": _attention(_operands, is_causal=True),
    "lengths-causal-other-columns": _attention(_operands, own=False, is_causal=True),
    "lengths-causal-layers": Case(
        _causal_layer, (floats(1, 5, 24),), "", ({1: _ROWS},), ((floats(1, 300, 24),), (floats(1, 31, 24),))
    ),
    "lengths-bools": _attention(lambda r, c: (*_operands(r, c), _kept(r, c)), own=False),
    "lengths-numbers": _attention(
        lambda r, c: (*_operands(r, c), torch.where(_kept(r, c), floats(1, 1, r, c), -torch.inf)), own=False
    ),
    "lengths-shared-heads": _attention(lambda r, c: _operands(r, c, 2), enable_gqa=True, is_causal=True),
    "lengths-shared-heads-bools": _attention(
        lambda r, c: (*_operands(r, c, 2), _kept(r, c)), own=False, enable_gqa=True
    ),
}
