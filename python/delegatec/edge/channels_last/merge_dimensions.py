# SPDX-License-Identifier: Apache-2.0
"""Merges dimensions of large values: NPUs compute on three at once, and repeat calls for others."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, cast

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from delegatec.edge.arguments import bind, dtype_of, operand_nodes, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.layouts import Shape
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import is_dynamic

aten = torch.ops.aten

_MOST: Final = 3
"""Dimensions with several elements; one more is the batch."""
_LANES: Final = 16
"""The innermost dimension is best a multiple of this."""
_SMALL: Final = 1 / 8
"""Operands that are expanded, relative to the large values."""
_REDUCTIONS: Final = (aten.sum.dim_IntList, aten.amax.default, aten.amin.default)

_Groups = Sequence[Sequence[int]]
_Broadcast = Callable[[Node], Sequence[Node]]


def merge_dimensions(program: EdgeProgram, broadcast: _Broadcast) -> bool:
    """Merges dimensions of pointwise calls and reductions with more than four, which exchange values.

    Args:
        program: edited in place.
        broadcast: returns the operands of a pointwise call, which broadcast; none for other calls.
    """
    full: dict[Node, Shape] = {}
    for node in program.graph.nodes:
        shape = _full(node, broadcast) if node.op == "call_function" else None
        if shape is not None:
            full[node] = shape
    is_changed = False
    while full:
        first = next(iter(full))
        shape, connected = full[first], _connected(first, full, broadcast)
        calls = [node for node in full if node in connected]
        for node in calls:
            del full[node]
        groups = _groups(shape, calls, broadcast)
        if groups is not None:
            _Merged(program, shape, groups, broadcast).run(calls)
            is_changed = True
    if is_changed:
        program.graph.eliminate_dead_code()
        program.erase_unused_placeholders()
    return is_changed


def _full(node: Node, broadcast: _Broadcast) -> Shape | None:
    """Returns the shape of the largest value of a call; None if its dimensions are not merged."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dim() <= _MOST + 1:
        return None
    operands = _operands(node, broadcast)
    if any(is_dynamic(each.meta["val"].shape) or 0 in shape_of(each) for each in (node, *operands)):
        return None
    if node.target in _REDUCTIONS:
        return shape_of(operands[0]) if bind(node)["keepdim"] else None
    return shape_of(node) if any(shape_of(each) == shape_of(node) for each in operands) else None


def _operands(node: Node, broadcast: _Broadcast) -> list[Node]:
    """Returns the operands whose dimensions are merged; scalars broadcast to any."""
    found = operand_nodes(node) if node.target in _REDUCTIONS else broadcast(node)
    return [each for each in found if shape_of(each)]


def _connected(first: Node, full: dict[Node, Shape], broadcast: _Broadcast) -> set[Node]:
    """Returns the calls that exchange large values with a call, or use the same."""
    shape, found, pending = full[first], {first}, [first]
    while pending:
        node = pending.pop()
        large = [each for each in (node, *_operands(node, broadcast)) if shape_of(each) == shape]
        near: Iterable[Node] = itertools.chain(large, *(each.users for each in large))
        for each in near:
            if full.get(each) == shape and each not in found:
                found.add(each)
                pending.append(each)
    return found


def _groups(shape: Shape, calls: Sequence[Node], broadcast: _Broadcast) -> _Groups | None:
    """Returns the dimensions to merge; None if small operands would become large."""
    dims = [dim for dim, size in enumerate(shape) if size != 1]
    if not dims:
        return None
    rank = len(shape)
    others = {_ranked(each, rank) for node in calls for each in (node, *_operands(node, broadcast))} - {shape}
    best: tuple[Any, _Groups] | None = None
    for cuts in itertools.combinations(range(1, len(dims)), min(_MOST, len(dims)) - 1):
        ends = (0, *cuts, len(dims))
        groups = [dims[start:end] for start, end in itertools.pairwise(ends)]
        most = max((math.prod(_expanded(shape, each, groups)) for each in others), default=1)
        if most > math.prod(shape) * _SMALL:
            continue
        inner = math.prod(shape[dim] for dim in groups[-1])
        key = (inner % _LANES != 0, most, inner)
        if best is None or key < best[0]:
            best = key, groups
    return best and best[1]


def _ranked(node: Node, rank: int) -> Shape:
    """Returns the shape of a value with leading dimensions of size 1."""
    shape = shape_of(node)
    return (*[1] * (rank - len(shape)), *shape)


def _expanded(shape: Shape, other: Shape, groups: _Groups) -> list[int]:
    """Returns the shape that a small value is expanded to."""
    found = list(other)
    for group in groups:
        if any(other[dim] != 1 for dim in group):
            for dim in group:
                found[dim] = shape[dim]
    return found


class _Merged:
    """Emits calls on merged dimensions."""

    def __init__(self, program: EdgeProgram, shape: Shape, groups: _Groups, broadcast: _Broadcast) -> None:
        self._builder = Builder(program)
        self._broadcast = broadcast
        self._constants = dict(program.fixed_constants())
        self._shape, self._groups = shape, groups
        self._new: dict[Node, Node] = {}

    def run(self, calls: Sequence[Node]) -> None:
        for node in calls:
            self._builder.at(node)
            if node.target in _REDUCTIONS:
                self._reduce(node)
                continue
            operands = {each: self._operand(each) for each in _operands(node, self._broadcast)}
            self._new[node] = self._called(node, operands, self._sizes(self._shape))
        for node in reversed(calls):
            self._redirect(node)
            self._builder.program.graph.erase_node(node)

    def _called(self, node: Node, operands: dict[Node, Node], sizes: Sequence[int]) -> Node:
        args, kwargs = map_arg((node.args, node.kwargs), lambda each: operands.get(each, each))
        return self._builder.call(
            node.target, *args, val=self._builder.empty(sizes, dtype_of(node)), **kwargs
        )

    def _widened(self, node: Node) -> Node | None:
        """Returns the value of fewer bits that a pointwise call widens."""
        is_pointwise = node.op == "call_function" and self._broadcast(node)
        operands = operand_nodes(node) if is_pointwise else []
        is_wider = len(operands) == 1 and dtype_of(operands[0]).itemsize < dtype_of(node).itemsize
        return operands[0] if is_wider and shape_of(operands[0]) == shape_of(node) else None

    def _sizes(self, shape: Sequence[int]) -> list[int]:
        sizes = [math.prod(shape[dim] for dim in group) for group in self._groups]
        return [*[1] * (_MOST + 1 - len(sizes)), *sizes]

    def _operand(self, node: Node) -> Node:
        if node in self._new:
            return self._new[node]
        expanded = _expanded(self._shape, _ranked(node, len(self._shape)), self._groups)
        sizes = self._sizes(expanded)
        if node.name in self._constants:
            constant = self._constants[node.name].detach().expand(expanded)
            return self._builder.derived(node, constant.reshape(sizes))
        if expanded != list(shape_of(node)):
            wide: Any = node.args[0] if node.target is aten.view.default else node
            narrow = self._widened(wide)
            if narrow is not None:
                # NPUs widen operands of arithmetic at once, but not those of movements
                part = self._operand(self._view(narrow, shape_of(node)))
                return self._called(wide, {narrow: part}, sizes)
            value = self._builder.empty(expanded, dtype_of(node))
            node = self._builder.call(aten.expand.default, node, expanded, val=value)
        return self._view(node, sizes)

    def _view(self, node: Node, sizes: Sequence[int]) -> Node:
        if shape_of(node) == tuple(sizes):
            return node
        source = node
        if node.target is aten.view.default:
            source = cast(Node, node.args[0])
        if shape_of(source) == tuple(sizes):
            return source
        value = self._builder.empty(sizes, dtype_of(node))
        return self._builder.call(aten.view.default, source, list(sizes), val=value)

    def _reduce(self, node: Node) -> None:
        """Reduces whole groups first, and the dimensions that remain in the original shape."""
        x, rank = operand_nodes(node)[0], len(self._shape)
        pending = {positive(each, rank) for each in bind(node)["dim"] or range(rank)}
        pending = {dim for dim in pending if self._shape[dim] != 1}
        first = _MOST + 1 - len(self._groups)
        reduced = [index for index, group in enumerate(self._groups) if pending.issuperset(group)]
        shape = list(self._shape)
        for dim in (dim for index in reduced for dim in self._groups[index]):
            shape[dim] = 1
            pending.discard(dim)
        found = self._operand(x)
        if reduced:
            dims = [first + index for index in reduced]
            found = self._reduced(node, found, dims)
        found = self._view(found, shape)
        if pending:
            found = self._reduced(node, found, sorted(pending))
        node.replace_all_uses_with(found)

    def _reduced(self, node: Node, x: Node, dims: list[int]) -> Node:
        sizes = [1 if dim in dims else size for dim, size in enumerate(shape_of(x))]
        kwargs = {name: value for name, value in node.kwargs.items() if name not in ("dim", "keepdim")}
        value = self._builder.empty(sizes, dtype_of(node))
        return self._builder.call(node.target, x, dims, True, val=value, **kwargs)

    def _redirect(self, node: Node) -> None:
        """Gives the other users of a call the new one."""
        if not node.users:
            return
        new = self._new[node]
        self._builder.at(new.next)
        back: Node | None = None
        for user in list(node.users):
            if user.target is aten.view.default:
                user.replace_input_with(node, new)
                continue
            if back is None:
                sizes = list(shape_of(node))
                back = self._builder.call(aten.view.default, new, sizes, val=node.meta["val"])
            user.replace_input_with(node, back)
