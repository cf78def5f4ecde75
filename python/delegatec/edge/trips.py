# SPDX-License-Identifier: Apache-2.0
"""How often a `while_loop` iterates, from a counter among its state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.control_flow import FORMS, WHILE_LOOP, bodies_of, group, returned
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

_AND: Final = frozenset({aten.bitwise_and.Tensor, aten.logical_and.default})
_MIRRORED: Final = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
"""Comparisons, and those with exchanged operands."""


@dataclass(frozen=True)
class Trips:
    """The number of a loop's iterations.

    Attributes:
        most: an upper bound.
        is_exact: whether the loop always has as many.
    """

    most: int
    is_exact: bool


def trips_of(program: EdgeProgram, call: Node) -> Trips | None:
    """Returns the iterations of a call of `while_loop`; None if they have no bound.

    The condition has a comparison of a part of the state with a constant, alone or in a conjunction. This
    part is an integer that starts as a constant, and to which each iteration adds the same number.

    Args:
        program: has the call.
        call: the call.
    """
    condition, body = bodies_of(program, call)
    conjuncts = list(_conjuncts(returned(condition)[0]))
    found = [_trips(program, call, condition, body, each) for each in conjuncts]
    bounds = [each for each in found if each is not None]
    return Trips(min(bounds), is_exact=len(conjuncts) == 1) if bounds else None


def _conjuncts(value: Any) -> Iterator[Any]:
    if isinstance(value, Node) and value.target in _AND:
        for each in value.all_input_nodes:
            yield from _conjuncts(each)
    else:
        yield value


def _trips(
    program: EdgeProgram, call: Node, condition: EdgeProgram, body: EdgeProgram, comparison: Any
) -> int | None:
    """Returns the iterations after which a comparison is false; None if they are not known."""
    name = _name(comparison)
    if name not in _MIRRORED:
        return None
    counter, limit = bind(comparison).values()
    inputs, state = list(condition.user_inputs()), group(call, FORMS[WHILE_LOOP].carried)
    if limit in inputs[: len(state)]:
        name, counter, limit = _MIRRORED[name], limit, counter
    if counter not in inputs[: len(state)]:
        return None
    index = inputs.index(counter)
    start, end, step = _integer(program, state[index]), _integer(condition, limit), _step(body, index)
    if start is None or end is None or not step or (step > 0) != (name in ("lt", "le")):
        return None
    distance = abs(end - start) if (end > start) == (step > 0) else 0
    if name in ("le", "ge") and (end == start or distance):
        distance += 1
    return -(-distance // abs(step))


def _name(value: Any) -> str:
    """Returns the name of the ATen operator of a call, without its overload."""
    is_call = isinstance(value, Node) and isinstance(value.target, OpOverload)
    return str(value.target.overloadpacket.__name__) if is_call else ""


def _step(body: EdgeProgram, index: int) -> int | None:
    """Returns what an iteration adds to a part of the state, if it is a constant."""
    following, counter = returned(body)[index], list(body.user_inputs())[index]
    name = _name(following)
    if name not in ("add", "sub"):
        return None
    first, second, scale = bind(following).values()
    if name == "add" and second is counter:
        first, second = second, first
    step = _integer(body, second)
    if first is not counter or scale != 1 or step is None:
        return None
    return step if name == "add" else -step


def _integer(program: EdgeProgram, value: Any) -> int | None:
    """Returns an integer that is a literal or a constant of one element."""
    if isinstance(value, Node):
        tensor = program.constants.get(value.name)
        is_integer = tensor is not None and tensor.numel() == 1 and not tensor.dtype.is_floating_point
        is_fixed = value.name not in program.mutated_inputs()
        return int(tensor.item()) if tensor is not None and is_integer and is_fixed else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
