# SPDX-License-Identifier: Apache-2.0
"""Writes to rows of buffers in their own memory, such as those of a decoder to its caches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.analysis.facts import STATED, Facts
from delegatec.edge.analysis.interval import Interval
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.control_flow import FORMS
from delegatec.edge.dim_orders import caller_orders
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import sizes_key

aten = torch.ops.aten

_INDEX_DTYPES: Final = (torch.int64, torch.int32)


@dataclass(frozen=True)
class _Rows:
    """A write to rows.

    Attributes:
        dim: the dimension of the rows.
        positions: where they are written.
        length: the size of the dimension.
        values: the values that are written.
        shape: of these values, without broadcasting.
    """

    dim: int
    positions: Node
    length: int
    values: Node
    shape: tuple[Any, ...]

    def is_plain(self, facts: Facts) -> bool:
        """Whether the kernel supports the operands unchanged."""
        return facts.of(self.positions).low >= 0 and len(shape_of(self.values)) == len(self.shape)


def prepare_writes(program: EdgeProgram) -> None:
    """Gives writes that can be in place the operands that the kernel supports.

    The kernel (`kernels/portable/cpu/op_index_put.cpp` of ExecuTorch 1.4.1) rejects negative positions, which
    count from the end, and values that broadcast.

    Args:
        program: the method, edited in place; a second run changes nothing.
    """
    builder = Builder(program)
    counted: dict[tuple[Node, int], Node] = {}
    for node, rows in _candidates(program).items():
        if rows.is_plain(builder.facts):
            continue
        key = (rows.positions, rows.length)
        if key not in counted:
            counted[key] = _from_start(builder, *key)
        values = rows.values
        builder.at(node)
        if len(shape_of(values)) < len(rows.shape):
            values = builder.call(aten.view.default, values, list(rows.shape))
        node.args = (node.args[0], [*[None] * rows.dim, counted[key]], values)


def writes_in_place(program: EdgeProgram) -> frozenset[Node]:
    """Returns the calls whose result is the new value of a buffer, and is written to the buffer itself.

    The functional kernel copies the whole buffer, and its result is copied back at the end. A buffer is
    written in place if the new value is the old one with rows written at positions, and if all readers of the
    old value come before.

    Args:
        program: the method, after `prepare_writes`.
    """
    candidates = _candidates(program)
    if not candidates:
        return frozenset()
    facts = Facts(program.fixed_constants())
    refused = {node for node, rows in candidates.items() if not rows.is_plain(facts)}
    # their results have views, which must not change
    for node in candidates:
        if bind(node)["self"] in refused:
            refused.add(node)
    return frozenset(candidates.keys() - refused)


def _candidates(program: EdgeProgram) -> dict[Node, _Rows]:
    """Returns the writes that are in place if the kernel supports their operands, in order."""
    order = {node: index for index, node in enumerate(program.graph.nodes)}
    placeholders = {node.name: node for node in program.placeholders()}
    returned = {each for each in program.user_outputs() if isinstance(each, Node)}
    orders = caller_orders(program)
    found: dict[Node, _Rows] = {}
    for name, value in program.mutated_inputs().items():
        buffer = placeholders[name]
        writes = _writes(buffer, value)
        pairs = zip([buffer, *writes], writes, strict=False)
        is_last = all(_ends_at(old, write, order) for old, write in pairs)
        if is_last and buffer not in orders and not returned.intersection(writes):
            found.update(writes)
    return found


def _writes(buffer: Node, value: Node) -> dict[Node, _Rows]:
    """Returns the writes that update a buffer to its new value, in order; none if there are others."""
    found: list[tuple[Node, _Rows]] = []
    while value is not buffer:
        rows = _rows(value)
        if rows is None:
            return {}
        found.append((value, rows))
        value = bind(value)["self"]
    return dict(reversed(found))


def _rows(node: Node) -> _Rows | None:
    """Returns the rows that a call writes to its first operand; None if it writes anything else."""
    if node.target is not aten.index_put.default:
        return None
    bound = bind(node)
    given = [(dim, index) for dim, index in enumerate(bound["indices"]) if index is not None]
    if bound["accumulate"] or len(given) != 1:
        return None
    ((dim, positions),) = given
    shape, values = shape_of(node), bound["values"]
    if dtype_of(positions) not in _INDEX_DTYPES or len(shape_of(positions)) != 1:
        return None
    if dtype_of(values) != dtype_of(node) or not isinstance(shape[dim], int):
        return None
    rows = (*shape[:dim], shape_of(positions)[0], *shape[dim + 1 :])
    leading = len(rows) - len(shape_of(values))
    # views of values without leading sizes of one cost nothing
    if leading < 0 or sizes_key((1,) * leading + shape_of(values)) != sizes_key(rows):
        return None
    return _Rows(dim, positions, shape[dim], values, rows)


def _ends_at(old: Node, write: Node, order: dict[Node, int]) -> bool:
    """Whether nothing reads a value after a write to its memory."""
    return all(
        user is write or (user.target not in FORMS and order[user] < order[write]) for user in old.users
    )


def _from_start(b: Builder, positions: Node, length: int) -> Node:
    """Returns positions that count from the start, at which eager mode writes."""
    if b.facts.of(positions).low >= 0:
        return positions
    # before all writes that read them
    after = positions.next
    while after.op == "placeholder":
        after = after.next
    is_negative = b.at(after).call(aten.lt.Scalar, positions, 0)
    from_end = b.call(aten.add.Scalar, positions, length)
    counted = b.call(aten.where.self, is_negative, from_end, positions)
    # eager mode rejects others
    counted.meta[STATED] = Interval(0, length - 1, True)
    return counted
