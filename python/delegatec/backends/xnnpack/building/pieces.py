# SPDX-License-Identifier: Apache-2.0
"""Large depthwise kernels as sums of small ones.

XNNPACK has depthwise kernels of up to 25 taps; a larger convolution runs as a matrix product for each
channel, which takes 4 to 14 times as long. A subset of taps with a constant stride is a kernel with a
dilation, so the convolution is the sum of several convolutions of the same image, which differ in padding.
Padding cannot be negative: each part extends from the first padded pixel to the last, if need be by zero
taps.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from torch.nn import functional as f

from delegatec.backends.xnnpack.depthwise import MOST_TAPS

_TILES: Final = (3, 4, 9, MOST_TAPS)
"""The sizes of kernels; other sizes run as the next larger one."""
_TOO_MANY: Final = 1 << 30
_MOST_FRAMED: Final = 16
"""Larger kernels are not tried without their border first."""
_SUM: Final = 4
"""The cost of adding a part, in taps: measured, see docs/xnnpack.md."""


class Taps(NamedTuple):
    """Taps of one dimension.

    Attributes:
        start: index of the first one; those outside of the kernel are zero.
        step: stride between adjacent ones.
        number: how many.
    """

    start: int
    step: int
    number: int

    @property
    def last(self) -> int:
        """Index of the last one."""
        return self.start + (self.number - 1) * self.step

    def of(self, weight: torch.Tensor, dim: int) -> torch.Tensor:
        """Returns these taps of a weight along `dim`, a negative dimension."""
        size = weight.shape[dim]
        before = max(0, -(self.start // self.step)) if self.start < 0 else 0
        first = self.start + before * self.step
        found = weight.movedim(dim, 0)[first : min(self.last + 1, size) : self.step].movedim(0, dim)
        after = self.number - before - found.shape[dim]
        if not before and not after:
            return found
        return f.pad(found, [0, 0] * (-dim - 1) + [before, after])

    def padding(self, padding: tuple[int, int], size: int, dilation: int) -> tuple[int, int]:
        """Returns the padding with which they compute their part of the convolution."""
        before, after = padding
        return before - self.start * dilation, after - (size - 1 - self.last) * dilation


def _tile(taps: int) -> int:
    return next((tile for tile in _TILES if taps <= tile), _TOO_MANY)


class Piece(NamedTuple):
    """A part of a kernel: the taps of some rows and columns."""

    rows: Taps
    columns: Taps

    @property
    def cost(self) -> int:
        """Its cost, in taps."""
        return _tile(self.rows.number * self.columns.number)


class Axis(NamedTuple):
    """One dimension of a convolution.

    Attributes:
        size: of the kernel.
        before: padding, in taps, at the start.
        after: padding at the end.
    """

    size: int
    before: int
    after: int

    def taps(self, start: int, step: int, last: int) -> Taps:
        """Returns taps, extended by zeros so that no padding is negative."""
        count = (last - start) // step + 1
        more = max(0, -(-(start - self.before) // step))
        start, count = start - more * step, count + more
        missing = self.size - 1 - self.after - (start + (count - 1) * step)
        return Taps(start, step, count + max(0, -(-missing // step)))

    def classes(self, first: int, last: int, step: int) -> list[Taps]:
        """Splits a range of taps into residue classes of their indices."""
        return [
            self.taps(start, step, start + (last - start) // step * step)
            for start in range(first, min(first + step, last + 1))
        ]


@functools.cache
def pieces(rows: Axis, columns: Axis) -> tuple[Piece, ...]:
    """Returns the cheapest known parts of a kernel, each of at most `MOST_TAPS`."""
    return _best(rows, columns, (0, rows.size - 1), (0, columns.size - 1))


_Range = tuple[int, int]


def _best(rows: Axis, columns: Axis, height: _Range, width: _Range) -> tuple[Piece, ...]:
    """Returns the cheapest parts for a range of rows and of columns."""
    candidates = [_grid(rows, columns, height, width)]
    (top, bottom), (left, right) = height, width
    if 3 < bottom - top < _MOST_FRAMED and 3 < right - left < _MOST_FRAMED:
        inner = (top + 1, bottom - 1), (left + 1, right - 1)
        frame = (
            *_edges(rows.taps(top, bottom - top, bottom), columns, width, turned=False),
            *_edges(columns.taps(left, right - left, right), rows, inner[0], turned=True),
        )
        candidates.append((*_best(rows, columns, *inner), *frame))
    return min(candidates, key=_cost)


def _edges(ends: Taps, axis: Axis, range_: _Range, *, turned: bool) -> tuple[Piece, ...]:
    """Returns the parts of two opposite edges of a border."""
    options = (
        tuple(Piece(each, ends) if turned else Piece(ends, each) for each in division)
        for division in _classes(axis, range_)
    )
    return min(options, key=_cost)


def _grid(rows: Axis, columns: Axis, height: _Range, width: _Range) -> tuple[Piece, ...]:
    """Returns the parts of all pairs of residue classes of rows and columns."""
    divisions = itertools.product(_classes(rows, height), _classes(columns, width))
    return tuple(itertools.starmap(Piece, itertools.product(*min(divisions, key=_grid_cost))))


def _grid_cost(division: tuple[list[Taps], list[Taps]]) -> int:
    """Returns the cost of all pairs of rows and columns, most of which have the same number of taps."""
    rows, columns = (Counter(taps.number for taps in each) for each in division)
    return sum(
        rows[height] * columns[width] * (_tile(height * width) + _SUM) for height in rows for width in columns
    )


def _classes(axis: Axis, range_: _Range) -> list[list[Taps]]:
    """Returns the splits of a range into residue classes."""
    first, last = range_
    return [axis.classes(first, last, step) for step in range(1, last - first + 2)]


def _cost(parts: Sequence[Piece]) -> int:
    return sum(part.cost + _SUM for part in parts)
