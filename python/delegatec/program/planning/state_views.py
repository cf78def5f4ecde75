# SPDX-License-Identifier: Apache-2.0
"""Views of buffers that methods write to, such as the filled rows of a decoder's cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torch.export.graph_signature import InputKind
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.control_flow import FORMS
from delegatec.edge.dim_orders import caller_orders
from delegatec.edge.program import EdgeProgram


def views_of_state(
    program: EdgeProgram, in_place: frozenset[Node], is_view: Callable[[Node], bool]
) -> frozenset[Node]:
    """Returns the views of buffers that need no copy: nothing reads them after the next write to the buffer.

    A value that is not written in place reaches the buffer after all instructions of the program.

    Args:
        program: the method.
        in_place: the calls that write to the memory of a buffer.
        is_view: whether a call returns adjacent elements of its first operand.
    """
    order = {node: index for index, node in enumerate(program.graph.nodes)}
    orders, mutated = caller_orders(program), program.mutated_inputs()
    found: set[Node] = set()
    for buffer, spec in zip(program.placeholders(), program.input_specs, strict=True):
        # an input is in the caller's memory, whose address is unknown
        if buffer.name not in mutated or buffer in orders or spec.kind is InputKind.USER_INPUT:
            continue
        # the buffer's values, each with the first instruction after which it is gone
        value: Node | None = buffer
        while value is not None:
            write = next((user for user in value.users if user in in_place and _writes_to(user, value)), None)
            end = len(order) if write is None else order[write]
            found.update(_unchanged(value, is_view, order, end))
            value = write
    return frozenset(found)


def _writes_to(write: Node, value: Node) -> bool:
    return bind(write)["self"] is value


def _unchanged(
    value: Node, is_view: Callable[[Node], bool], order: dict[Node, int], end: int
) -> Iterator[Node]:
    """Yields views of a value that are only read before an instruction, and views of these."""
    for user in value.users:
        if is_view(user) and user.args[0] is value and _is_read_before(user, is_view, order, end):
            yield user
            yield from _unchanged(user, is_view, order, end)


def _is_read_before(view: Node, is_view: Callable[[Node], bool], order: dict[Node, int], end: int) -> bool:
    """Whether all readers of a view, and of views of it, precede an instruction; outputs do not."""
    return all(
        user.op != "output"
        and user.target not in FORMS
        and order[user] < end
        and (not is_view(user) or _is_read_before(user, is_view, order, end))
        for user in view.users
    )
