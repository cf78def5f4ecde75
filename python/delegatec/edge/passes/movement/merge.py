# SPDX-License-Identifier: Apache-2.0
"""Replaces chains of movements by shorter ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, Final

import sympy
import torch
from torch.fx import Node

from delegatec.edge.arguments import dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.engine import is_erased
from delegatec.edge.passes.movement.arrangement import (
    Arrangement,
    Size,
    as_size,
    identity,
    is_movement,
    moved,
    sizes_of,
)
from delegatec.edge.passes.movement.plan import FREE, Cost, Move, Plan, cost_of, shortest_plan
from delegatec.edge.passes.redirect import redirect
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

# Alone as good as after a movement that others use.
_ALONE: Final = frozenset({aten.expand.default, aten.permute.default, aten.view.default})


def merge_movements(program: EdgeProgram) -> bool:
    """Replaces consecutive movements by fewer, or by ones that copy less.

    Each is composed with those before it to an arrangement of the elements of their source, for which the
    shortest plan is known. A movement with several users stays, unless all of them are movements that can
    start at its source at the same cost.
    """
    merger = _Merger(program)
    for node in list(program.graph.nodes):
        merger.visit(node)
    return merger.finish()


@dataclass(eq=False)
class _Chain:
    """The effect of a chain of movements on a tensor of some sizes.

    Attributes:
        arrangement: of the elements of that tensor.
        last: the cost of its last movement.
    """

    arrangement: Arrangement
    last: Cost

    @cached_property
    def plan(self) -> Plan:
        """The shortest plan."""
        return shortest_plan(self.arrangement)


class _Merger:
    """Edits the movements of a program in place, in the order of its graph."""

    def __init__(self, program: EdgeProgram) -> None:
        self._builder = Builder(program)
        # node -> where its chain starts, and the chain, which equal ones share
        self._chains: dict[Node, tuple[Node, _Chain]] = {}
        self._known: dict[Any, _Chain | None] = {}
        # symbolic scalars of the program so far: no movement may need others
        self._scalars: dict[Size, Node] = {}
        self._replaced: dict[Node, Node] = {}
        self._is_changed = False

    def visit(self, node: Node) -> None:
        """Shortens the chain that ends with a node."""
        if not is_movement(node):
            if isinstance(node.meta.get("val"), torch.SymInt):
                self._scalars.setdefault(as_size(node.meta["val"]), node)
            return
        found = self._chain_of(node)
        if found is None:
            return
        self._chains[node] = found
        source, chain = found
        own = _own_chain(node, source)
        is_first = node.args[0] is source
        if is_first and not _is_view(chain.arrangement):
            return
        cost = self._cost(own)
        is_alone = [move.target for move in chain.plan.moves] == [node.target] and node.target in _ALONE
        is_alone &= own[-1].args[0] is not source and chain.plan.cost == cost
        if is_alone or chain.plan.cost.is_less(cost):
            self._apply([node], own[-1])

    def finish(self) -> bool:
        """Handles movements with several users; whether anything has changed."""
        for node in list(self._chains):
            if len(node.users) > 1 and node not in self._replaced:
                self._bypass(node)
        redirect(self._replaced)
        return self._is_changed

    def _chain_of(self, node: Node) -> tuple[Node, _Chain] | None:
        """Returns the longest chain that ends with a node, and where it starts."""
        before: Any = node.args[0]
        sizes = sizes_of(node)
        if sizes is None:
            return None
        if before in self._chains:
            source, outer = self._chains[before]
            chain = self._extended(outer, node, sizes)
            if chain is not None:
                return source, chain
        result_sizes = sizes_of(before)
        chain = self._extended(result_sizes, node, sizes) if result_sizes is not None else None
        return (before, chain) if chain is not None else None

    def _extended(
        self, before: _Chain | tuple[Size, ...], node: Node, sizes: tuple[Size, ...]
    ) -> _Chain | None:
        """Returns the chain after one more movement of a chain, or of a tensor of some sizes."""
        arguments = tuple(tuple(each) if isinstance(each, list) else each for each in node.args[1:])
        key = (before, node.target, arguments, sizes)
        if key not in self._known:
            start = before.arrangement if isinstance(before, _Chain) else identity(before)
            after = moved(start, node, sizes)
            cost = cost_of(node.target, start.sizes, sizes)
            self._known[key] = None if after is None else _Chain(after, cost)
        return self._known[key]

    def _cost(self, nodes: Iterable[Node]) -> Cost:
        return _total(self._chains[node][1].last for node in nodes)

    def _bypass(self, node: Node) -> None:
        """Moves all users of a movement to its source, if they are movements and that costs less."""
        (source, _), users = self._chains[node], list(node.users)
        if any(self._chains.get(user, (None,))[0] is not source for user in users):
            return
        own = _own_chain(node, source)
        cost = _total(self._chains[user][1].plan.cost for user in users)
        if cost.is_less(self._cost([*users, *own])):
            self._apply(users, own[-1])

    def _apply(self, nodes: Sequence[Node], first: Node) -> None:
        """Makes calls the last steps of their plans, unless these need scalars that no call computes.

        Args:
            nodes: the calls, of one source.
            first: the earliest call that the plans make unnecessary. If it ends the lifetime of a larger
                source, and the results are not larger than its own, the calls move there.
        """
        filled = [[self._fill(move) for move in self._chains[node][1].plan.moves] for node in nodes]
        scalars = [each for moves in filled for move in moves for each in _scalars(move.args)]
        if any(isinstance(each, sympy.Expr) for each in scalars):
            return
        self._is_changed = True
        source = self._chains[nodes[0]][0]
        is_early = sum(map(_elements, nodes)) <= _elements(first) < _elements(source)
        is_early &= not any(isinstance(each, Node) for each in scalars)
        before = [node.args[0] for node in nodes]
        for node, moves in zip(nodes, filled, strict=True):
            if not moves:
                self._replace(node)
                continue
            made = self._rewrite(node, moves)
            for each in made if is_early and first is not node else ():
                first.prepend(each)
        for unused in before:
            _erase_unused(unused)

    def _fill(self, move: Move) -> Move:
        """Returns a step with nodes for the symbolic scalars that have one."""

        def node_of(scalar: Any) -> Any:
            return self._scalars.get(scalar, scalar) if isinstance(scalar, sympy.Expr) else scalar

        args = [[*map(node_of, each)] if isinstance(each, list) else node_of(each) for each in move.args]
        return replace(move, args=tuple(args))

    def _rewrite(self, node: Node, moves: Sequence[Move]) -> list[Node]:
        """Makes a call the last one of some steps; returns the calls of all."""
        *others, last = moves
        made = [self._chains[node][0]]
        for move in others:
            is_static = all(isinstance(size, int) for size in move.sizes)
            val = self._builder.empty(move.sizes, dtype_of(node)) if is_static else None
            made.append(self._builder.at(node).call(move.target, made[-1], *move.args, val=val))
        node.target, node.args, node.kwargs = last.target, (made[-1], *last.args), {}
        for each in (*made[1:], node):
            found = self._chain_of(each)
            if found is not None:
                self._chains[each] = found
        return [*made[1:], node]

    def _replace(self, node: Node) -> None:
        """Replaces a call by its source: at once in movements, later in users with many operands."""
        self._replaced[node] = source = self._chains[node][0]
        for user in list(node.users):
            if is_movement(user):
                user.update_arg(0, source)


def _own_chain(node: Node, source: Node) -> list[Node]:
    """Returns a call, and those before it that only it uses, as far as to the source."""
    chain = [node]
    while (before := chain[-1].args[0]) is not source and len(before.users) == 1:  # type: ignore[union-attr]
        chain.append(before)  # type: ignore[arg-type]
    return chain


def _is_view(arrangement: Arrangement) -> bool:
    """Whether an arrangement has all elements of its source in their order."""
    return arrangement.order == tuple(atom for dim in arrangement.dims for atom in dim.axis) and not any(
        dim.cut for dim in arrangement.dims
    )


def _scalars(args: Iterable[Any]) -> Iterator[Any]:
    for each in args:
        yield from each if isinstance(each, list) else (each,)


def _total(costs: Iterable[Cost]) -> Cost:
    return reduce(Cost.plus, costs, FREE)


def _elements(node: Node) -> float:
    """Returns the number of elements; infinity if it is dynamic."""
    elements = math.prod(sizes_of(node) or ())
    return elements if isinstance(elements, int) else math.inf


def _erase_unused(node: Any) -> None:
    while isinstance(node, Node) and is_movement(node) and not node.users and not is_erased(node):
        before = node.args[0]
        node.graph.erase_node(node)
        node = before
