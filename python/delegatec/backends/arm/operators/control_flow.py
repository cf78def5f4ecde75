# SPDX-License-Identifier: Apache-2.0
"""Control flow: the bodies become regions of the graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.building.operation import Value
from delegatec.backends.arm.dtypes import TO_TOSA
from delegatec.backends.arm.operators.row import Constraint, OperatorRow
from delegatec.edge.control_flow import COND, FORMS, WHILE_LOOP, group, operands
from delegatec.edge.legalize import constraint


def _cond(b: GraphBuilder, node: Node) -> None:
    condition, then, otherwise = node.args[:3]
    assert isinstance(condition, Node) and isinstance(then, Node) and isinstance(otherwise, Node)
    values = [b.of(each) for each in operands(node)]
    results = [Value("", TO_TOSA[each.dtype], tuple(each.shape)) for each in node.meta["val"]]
    found = b.run(
        "COND_IF",
        b.of(condition),
        *values,
        results=results,
        then_graph=b.body(then),
        else_graph=b.body(otherwise),
    )
    _unpack(b, node, found)


def _while_loop(b: GraphBuilder, node: Node) -> None:
    condition, body = node.args[:2]
    assert isinstance(condition, Node) and isinstance(body, Node)
    values = [b.of(each) for each in operands(node)]
    # All operands of a loop in TOSA are its state.
    passed = len(group(node, FORMS[WHILE_LOOP].free))
    names = {"cond_graph": b.body(condition), "body_graph": b.body(body, passed)}
    _unpack(b, node, b.run("WHILE_LOOP", *values, results=values, **names))


def _unpack(b: GraphBuilder, node: Node, results: Sequence[Value]) -> None:
    for user in node.users:
        index: Any = user.args[1]
        b.alias(user, results[index])


def _scalars(node: Node, _: object) -> str | None:
    found = next((value for value in _values(node) if not isinstance(value, torch.Tensor)), None)
    return None if found is None else f"the scalar {found} is an operand or a result"


def _values(node: Node) -> Iterator[Any]:
    given = [node.args[0], *operands(node)] if node.target is COND else operands(node)
    yield from (each.meta["val"] if isinstance(each, Node) else each for each in given)
    yield from node.meta["val"]


_TENSORS: Final[Constraint] = constraint.Constraint(
    "scalar", "Operands and results are tensors: TOSA has no other values.", _scalars
)

ROWS: Final = (
    OperatorRow(COND, _cond, (_TENSORS,)),
    OperatorRow(WHILE_LOOP, _while_loop, (_TENSORS,)),
)
