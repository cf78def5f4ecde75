# SPDX-License-Identifier: Apache-2.0
"""Control flow: branches and loops whose bodies are chains of the graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.mlx.building.graph_builder import GraphBuilder, is_size
from delegatec.backends.mlx.building.values import Array, Chain, Int, Scalar
from delegatec.backends.mlx.operators.row import Constraint, OperatorRow
from delegatec.edge.control_flow import COND, FORMS, MAP, SCAN, WHILE_LOOP, bodies_of, group, operands
from delegatec.edge.trips import trips_of


def _cond(b: GraphBuilder, node: Node) -> None:
    condition = node.args[0]
    assert isinstance(condition, Node)
    given, results = _operands(b, operands(node)), _results(b, node)
    chosen = _chosen(b, b.of(condition))
    chains = []
    for each in bodies_of(b.program, node):
        with b.body(each, given) as (chain, found):
            _write(b, chain, results, found)
        chains.append(chain)
    b.emit("If", condition=chosen, yes=chains[0], no=chains[1])
    _unpack(b, node, results)


def _chosen(b: GraphBuilder, condition: Array) -> Int:
    chosen = Scalar()
    b.emit("Item", x=b.converted(condition, torch.int32), out=chosen)
    return Int(chosen)


def _loop_of_rows(b: GraphBuilder, node: Node) -> None:
    """Emits a loop over rows: its state is in slots that the body reads and writes."""
    form = FORMS[node.target]
    (body,) = bodies_of(b.program, node)
    originals = _operands(b, group(node, form.sliced))
    rows = [b.temporary(each.shape[1:], each.dtype) for each in originals]
    state = _state(b, node)
    results = [*state, *_results(b, node)[len(state) :]]
    with b.body(body, [*state, *rows, *_operands(b, group(node, form.free))]) as (chain, found):
        _write(b, chain, results, found)
    outputs = results[len(state) :]
    b.emit("Scan", originals=originals, sliced=rows, outputs=outputs, carry=state, body=chain, axis=0)
    _unpack(b, node, results)


def _while_loop(b: GraphBuilder, node: Node) -> None:
    """Emits a loop over counts: an iteration after the last one does not change the state."""
    trips = trips_of(b.program, node)
    assert trips is not None
    state = _state(b, node)
    given = [*state, *_operands(b, group(node, FORMS[WHILE_LOOP].free))]
    condition, body = bodies_of(b.program, node)
    if trips.is_exact:
        with b.body(body, given) as (chain, found):
            _write(b, chain, state, found)
    else:
        with b.body(condition, given) as (chain, (more,)):
            chosen = _chosen(b, more)
            with b.body(body, given) as (yes, found):
                _write(b, yes, state, found)
            b.emit("If", condition=chosen, yes=yes, no=Chain())
    if trips.most:
        counts, count = b.temporary((trips.most,), torch.int32), b.temporary((), torch.int32)
        b.emit("Arange", out=counts, start=Int(0), stop=Int(trips.most), step=Int(1))
        b.emit("Scan", originals=[counts], sliced=[count], outputs=[], carry=state, body=chain, axis=0)
    _unpack(b, node, state)


def _state(b: GraphBuilder, node: Node) -> list[Array]:
    """Returns the slots of the state of a loop, which have its initial values."""
    state = []
    for each in _operands(b, group(node, FORMS[node.target].carried)):
        state.append(b.temporary(each.shape, each.dtype))
        b.emit("IdCopy", x=each, out=state[-1])
    return state


def _operands(b: GraphBuilder, given: Sequence[Any]) -> list[Any]:
    return [b.integer(each) if is_size(each) else b.of(each) for each in given]


def _results(b: GraphBuilder, node: Node) -> list[Array]:
    return [b.temporary(each.shape, each.dtype) for each in node.meta["val"]]


def _unpack(b: GraphBuilder, node: Node, results: Sequence[Array]) -> None:
    for index, each in enumerate(results):
        b.alias(node, each, index)


def _write(b: GraphBuilder, chain: Chain, targets: Sequence[Array], results: Sequence[Array]) -> None:
    """Lets a chain write its results to given values, of which it may read the old ones."""
    found = [b.converted(each, target.dtype) for each, target in zip(results, targets, strict=True)]
    for index, (each, target) in enumerate(zip(found, targets, strict=True)):
        if each in targets and each is not target:
            found[index] = b.temporary(each.shape, each.dtype)
            b.emit("IdCopy", x=each, out=found[index])
    for each, target in zip(found, targets, strict=True):
        if each is not target:
            b.emit("IdCopy", x=each, out=target)
    for target in targets:
        _write_early(chain, target, targets)


def _write_early(chain: Chain, target: Array, targets: Sequence[Array]) -> None:
    """Lets the operation that computes a result write it, if none after it reads the old value."""
    found = (each for each in chain.operations if each.name == "IdCopy" and each.fields["out"] is target)
    copy = next(found, None)
    if copy is None or copy.fields["x"] in targets:
        return
    result = copy.fields["x"]
    makes = [index for index, each in enumerate(chain.operations) if result in each.own_results()]
    if len(makes) != 1 or any(target in each.operands() for each in chain.operations[makes[0] + 1 :]):
        return
    chain.operations.remove(copy)
    chain.replace(result, target)


def _scalars(node: Node, _: object) -> str | None:
    found = next((value for value in _values(node) if not isinstance(value, torch.Tensor)), None)
    return None if found is None else f"the scalar {found} is a condition, a result, or the state of a loop"


def _values(node: Node) -> Iterator[Any]:
    form = FORMS[node.target]
    given = [node.args[0]] if node.target is COND else group(node, form.carried)
    yield from (each.meta["val"] if isinstance(each, Node) else each for each in given)
    yield from node.meta["val"]


_TENSORS: Final = Constraint("scalar", "Conditions, results, and the state of loops are tensors.", _scalars)

ROWS: Final = (
    OperatorRow(COND, _cond, (_TENSORS,)),
    OperatorRow(MAP, _loop_of_rows, (_TENSORS,)),
    OperatorRow(SCAN, _loop_of_rows, (_TENSORS,), note="also recurrent layers"),
    OperatorRow(WHILE_LOOP, _while_loop, (_TENSORS,), note="with a counter that ends it"),
)
