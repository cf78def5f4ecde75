# SPDX-License-Identifier: Apache-2.0
"""The rows of a cache that a mask of attention allows: those up to the last position of a query.

A mask compares the indices of rows, a constant, with the positions of queries. Other masks that apply too,
such as that of a window, allow fewer rows.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.value_ranges import ValueRanges

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.value import Value, value_of
from delegatec.edge.symbols import sizes_key

aten = torch.ops.aten

RESHAPES: Final = frozenset({aten.view.default, aten.unsqueeze.default, aten.squeeze.dims})
_BOTH: Final = frozenset({aten.logical_and.default, aten.bitwise_and.Tensor})
# Comparison -> the operands that are the indices of rows and the positions, and the rows after a position.
_COMPARISONS: Final[dict[Any, tuple[str, str, int]]] = {
    aten.le.Tensor: ("self", "other", 1),
    aten.lt.Tensor: ("self", "other", 0),
    aten.ge.Tensor: ("other", "self", 1),
    aten.gt.Tensor: ("other", "self", 0),
}


class FilledRows:
    """The masks of attention of one program.

    Args:
        builder: of the program.
    """

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._ends: dict[tuple[Node, int, int], Node] = {}
        self._masks: dict[tuple[Node, Node], Value] = {}

    def end(self, mask: Node, length: int) -> Node | None:
        """Returns the number of rows, 1 to `length`, after which a mask allows none; None if unknown.

        Args:
            mask: bool [.., queries, length].
            length: of the cache.
        """
        found = self.positions(mask, length)
        if found is None:
            return None
        key = (*found, length)
        if key not in self._ends:
            self._ends[key] = self._counted(*key)
        return self._ends[key]

    def mask(self, mask: Node, end: Node) -> Value:
        """Returns the first columns of a mask for all heads, bool [queries, end]."""
        key = mask, end
        if key not in self._masks:
            part = _prefix(self._builder, _of_matrix(mask), end)
            if len(shape_of(part)) > 2:
                part = self._builder.call(aten.squeeze.dims, part, [*range(len(shape_of(part)) - 2)])
            self._masks[key] = value_of(self._builder, part)
        return self._masks[key]

    @staticmethod
    def compares(mask: Node) -> bool:
        """Whether a mask is a comparison, and no combination of masks."""
        return mask.target in _COMPARISONS

    def positions(self, mask: Node, length: int) -> tuple[Node, int] | None:
        """Returns positions after whose largest one no row is allowed but `count`, and this count."""
        if sizes_key(shape_of(mask)[-1:]) != (length,):
            return None
        if mask.target in RESHAPES:
            return self.positions(bind(mask)["self"], length)
        if mask.target in _BOTH:
            found = (self.positions(bind(mask)[name], length) for name in ("self", "other"))
            return next((each for each in found if each is not None), None)
        if mask.target not in _COMPARISONS:
            return None
        rows, positions, count = _COMPARISONS[mask.target]
        bound = bind(mask)
        is_column = sizes_key(shape_of(bound[positions])[-1:]) in ((), (1,))
        if not is_column or dtype_of(bound[positions]) not in (torch.int64, torch.int32):
            return None
        known = self._builder.facts.constant(bound[rows])
        if known is None or known.numel() != length or known.shape[-1] != length:
            return None
        is_counted = torch.equal(known.flatten().long(), torch.arange(length))
        return (bound[positions], count) if is_counted else None

    def _counted(self, positions: Node, count: int, length: int) -> Node:
        b = self._builder
        last = value_of(b, positions)
        if last.rank:
            last = last.amax(list(range(last.rank)))
        rows = (last + count if count else last).clamp(1, length)
        return b.call(aten._local_scalar_dense.default, rows.node, val=_scalar(b, 1, length))


def _of_matrix(mask: Node) -> Node:
    """Returns a mask before views that add leading sizes of one."""
    while mask.target in RESHAPES:
        source = bind(mask)["self"]
        new = len(shape_of(mask)) - len(shape_of(source))
        if new < 1 or len(shape_of(source)) < 2 or {*sizes_key(shape_of(mask)[:-2])} != {1}:
            return mask
        mask = source
    return mask


def _prefix(b: Builder, node: Node, end: Node) -> Node:
    """Returns the first columns of a mask, compared only there."""
    if node.target in (*_BOTH, *_COMPARISONS):
        operands = [
            _prefix(b, each, end) if _columns(each) == _columns(node) else each
            for each in bind(node).values()
        ]
        return b.call(node.target, *operands)
    if node.target in RESHAPES and _columns(bind(node)["self"]) == _columns(node):
        source = _prefix(b, bind(node)["self"], end)
        shape = [*shape_of(node)[:-1], end.meta["val"]]
        return b.call(aten.view.default, source, shape)
    return first_rows(b, node, -1, end)


def _columns(node: Node) -> tuple[int | str, ...]:
    return sizes_key(shape_of(node)[-1:])


def first_rows(b: Builder, node: Node, dim: int, end: Node) -> Node:
    """Returns the first elements of a dimension, whose number is a scalar."""
    shape: list[Any] = [*shape_of(node)]
    shape[dim] = end.meta["val"]
    return b.call(aten.slice.Tensor, node, dim % len(shape), 0, end, val=b.empty(shape, dtype_of(node)))


def _scalar(b: Builder, least: int, most: int) -> torch.SymInt:
    """Returns a new scalar that depends on data, with bounds."""
    mode: Any = b.fake_mode
    if mode.shape_env is None:
        mode.shape_env = ShapeEnv()
    environment = mode.shape_env
    with environment.ignore_fresh_unbacked_symbols():
        scalar: torch.SymInt = environment.create_unbacked_symint()
    symbol = scalar.node.expr
    environment.constrain_symbol_range(symbol, least, most)
    b.program.range_constraints[symbol] = ValueRanges(least, most)
    return scalar
