# SPDX-License-Identifier: Apache-2.0
"""Rewrites calls on more dimensions than a backend supports to calls on fewer.

Windows of images and volumes are permutations of six to nine dimensions, between two views. Dimensions that
stay adjacent are merged, those of size 1 are removed, and the rest of a permutation is split into several
calls.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.node import map_arg

from delegatec.edge.arguments import bind, operand_nodes, positive
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.value import Value
from delegatec.edge.passes.eliminate_dead_code import eliminate_dead_code
from delegatec.edge.passes.movement.arrangement import as_size
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

_VIEWS: Final = (aten.view.default, aten.unsqueeze.default, aten.squeeze.dims)
_ALONG: Final = (aten._softmax.default, aten.cat.default, aten.select.int, aten.slice.Tensor)
"""Calls along one dimension."""
_REDUCTIONS: Final = (aten.amax.default, aten.amin.default, aten.mean.dim, aten.sum.dim_IntList)
_PER_TENSOR: Final = ("quantize_per_tensor", "dequantize_per_tensor")

_Groups = Sequence[Sequence[int]]


def lower_ranks(program: EdgeProgram, most: int) -> bool:
    """Replaces moves, reductions and functions of elements of many dimensions by those of fewer.

    A call of few dimensions computes the elements of the original one, in row-major order: views
    between calls change their dimensions. Calls of other operators read a view with all dimensions.

    Args:
        program: edited in place.
        most: the most dimensions of a value, at least four.

    Returns:
        Whether a call was replaced.
    """
    editor = _Editor(program, most)
    for node in list(program.graph.nodes):
        if node.op == "call_function" and _rank(node) is not None:
            editor.visit(node)
    return editor.finish()


def _rank(node: Node) -> int | None:
    value = node.meta.get("val")
    return value.dim() if isinstance(value, torch.Tensor) else None


def _sizes(node: Node) -> list[Hashable]:
    """Returns the sizes of a tensor, of which symbolic ones are compared without guards."""
    return [as_size(size) for size in node.meta["val"].shape]


class _Editor:
    def __init__(self, program: EdgeProgram, most: int) -> None:
        self.most = most
        self._program = program
        self._builder = Builder(program)
        # a value of many dimensions -> its elements, in few
        self._low: dict[Node, Node] = {}
        self._replaced: dict[Node, Node] = {}

    def visit(self, node: Node) -> None:
        """Adds calls of few dimensions before a call of many, if there is a form for it."""
        ranks = [_rank(each) or 0 for each in (node, *operand_nodes(node))]
        emit = _EMITTERS.get(node.target) or (_pointwise if _is_pointwise(node) else None)
        if emit is None or max(ranks) <= self.most or 0 in _sizes(node):
            return
        if node.target in _VIEWS:
            self._view(node)
            return
        self._builder.at(node)
        found = emit(self, node)
        if found is not None:
            self._replaced[node] = found
            if ranks[0] > self.most:
                self._low[node] = found

    def _view(self, node: Node) -> None:
        source: Any = node.args[0]
        before = self._low.get(source)
        if before is not None:
            self._replaced[node] = before
        if (_rank(node) or 0) > self.most and (before is not None or (_rank(source) or 0) <= self.most):
            self._low[node] = source if before is None else before

    def value(self, node: Node, sizes: Sequence[int]) -> Value:
        """Returns the elements of a value in another shape; a constant stays one."""
        constant = self._program.fixed_constants().get(node.name)
        if constant is not None and all(isinstance(size, int) for size in sizes):
            return Value(self._builder, self._builder.derived(node, constant.detach().reshape(tuple(sizes))))
        return self._viewed(self._low.get(node, node), sizes)

    def _viewed(self, source: Any, sizes: Sequence[int]) -> Value:
        while source.target is aten.view.default:
            source = source.args[0]
        return Value(self._builder, source).view(*sizes)

    def grouped(self, node: Node, groups: _Groups) -> Value | None:
        """Returns a value with groups of its dimensions merged; None if they are too many."""
        if len(groups) > self.most:
            return None
        shape = node.meta["val"].shape
        return self.value(node, [math.prod(shape[dim] for dim in group) for group in groups])

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        """Adds a call."""
        return self._builder.call(target, *args, **kwargs)

    def low(self, node: Node) -> Node:
        """Returns the elements of a value, in few dimensions if it has such a form."""
        return self._low.get(node, node)

    def permuted(self, x: Node, shape: Sequence[int], order: Sequence[int]) -> Node:
        """Permutes the dimensions of a shape that a value is viewed in, few of them at a time."""
        sizes = dict(enumerate(shape))
        for before, after in _permutations(list(order), self.most):
            position = {dim: index for index, dim in enumerate(before)}
            runs = _runs(after, position)
            first = sorted(runs, key=lambda run: position[run[0]])
            joined = self._viewed(x, [math.prod(sizes[dim] for dim in run) for run in first])
            x = joined.permute(*(first.index(run) for run in runs)).node
        return x

    def finish(self) -> bool:
        """Replaces the calls for their users; whether there were any."""
        for node, found in self._replaced.items():
            users = [each for each in node.users if each not in self._replaced]
            if users:
                self._builder.at(node)
                result = Value(self._builder, found).view(*node.meta["val"].shape).node
                for user in users:
                    user.replace_input_with(node, result)
        if self._replaced:
            eliminate_dead_code(self._program)
            self._program.erase_unused_placeholders()
        return bool(self._replaced)


def _joined(flags: Sequence[Hashable], sizes: Sequence[Hashable]) -> list[list[int]]:
    """Returns dimensions that are not of size 1, adjacent ones with the same flag merged."""
    dims = [dim for dim, size in enumerate(sizes) if size != 1]
    return [list(group) for _, group in itertools.groupby(dims, lambda dim: flags[dim])]


def _aligned(node: Node, rank: int) -> list[Hashable]:
    return [*[1] * (rank - (_rank(node) or 0)), *_sizes(node)]


def _permute(editor: _Editor, node: Node) -> Node | None:
    x: Any = node.args[0]
    sizes, rank = _sizes(x), len(_sizes(x))
    order = [dim for dim in (positive(each, rank) for each in bind(node)["dims"]) if sizes[dim] != 1]
    position = {dim: index for index, dim in enumerate(sorted(order))}
    runs = _runs(order, position)
    first = sorted(runs)
    shape = x.meta["val"].shape
    joined = [math.prod(shape[dim] for dim in run) for run in first]
    return editor.permuted(editor.low(x), joined, [first.index(run) for run in runs])


def _runs(order: Sequence[int], position: Mapping[int, int]) -> list[tuple[int, ...]]:
    """Returns the dimensions that are adjacent in an order as well as before."""
    runs: list[tuple[int, ...]] = []
    for dim in order:
        if runs and position[runs[-1][-1]] + 1 == position[dim]:
            runs[-1] += (dim,)
        else:
            runs.append((dim,))
    return runs


def _permutations(order: list[int], most: int) -> Iterable[tuple[list[int], list[int]]]:
    """Returns pairs of orders that lead to an order, each of which moves at most `most` runs at once."""
    states = [sorted(order)]
    while states[-1] != order:
        now = states[-1]
        start = next(index for index, dim in enumerate(now) if dim != order[index])
        found = now.index(order[start])
        end = found + 1
        while end < len(now) and now[end] == order[start + end - found]:
            end += 1
        states.append([*now[:start], *now[found:end], *now[start:found], *now[end:]])
    at = 0
    while at < len(states) - 1:
        position = {dim: index for index, dim in enumerate(states[at])}
        reached = [
            index for index in range(at + 1, len(states)) if len(_runs(states[index], position)) <= most
        ]
        yield states[at], states[max(reached)]
        at = max(reached)


def _expand(editor: _Editor, node: Node) -> Node | None:
    x, shape, sizes = bind(node)["self"], node.meta["val"].shape, _sizes(node)
    kept = _are_full(x, sizes)
    groups = _joined(kept, sizes)
    if len(groups) > editor.most:
        return None
    wide = [math.prod(shape[dim] for dim in group) for group in groups]
    value = editor.value(x, [size if kept[group[0]] else 1 for size, group in zip(wide, groups, strict=True)])
    return value.expand(*wide).node


def _are_full(operand: Node, sizes: Sequence[Hashable]) -> list[bool]:
    """Returns for each dimension of a result whether an operand has all its elements."""
    return [own == size for own, size in zip(_aligned(operand, len(sizes)), sizes, strict=True)]


def _pointwise(editor: _Editor, node: Node) -> Node | None:
    operands = list(dict.fromkeys(each for each in operand_nodes(node) if _rank(each)))
    if not operands:
        return None
    sizes, shape = _sizes(node), node.meta["val"].shape
    if len(operands) == 1 and _sizes(operands[0]) == sizes:
        low = editor.low(operands[0])
        mapping = {operands[0]: low if low is not operands[0] else editor.value(low, [math.prod(shape)]).node}
    else:
        full = {each: _are_full(each, sizes) for each in operands}
        groups = _joined([tuple(flags[dim] for flags in full.values()) for dim in range(len(sizes))], sizes)
        if len(groups) > editor.most:
            return None
        mapping = {}
        for each, flags in full.items():
            joined = [math.prod(shape[dim] for dim in group) if flags[group[0]] else 1 for group in groups]
            mapping[each] = editor.value(each, joined or [1]).node
    args, kwargs = map_arg((node.args, node.kwargs), lambda each: mapping.get(each, each))
    return editor.call(node.target, *args, **kwargs)


def _along(editor: _Editor, node: Node) -> Node | None:
    bound, ranks = bind(node), {_rank(each) for each in operand_nodes(node)}
    if len(ranks) != 1:
        return None
    dim = positive(bound.pop("dim"), max(filter(None, ranks)))

    def low(each: Node) -> Node:
        if _rank(each) is None:
            return each
        shape = each.meta["val"].shape
        return editor.value(each, [math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])]).node

    first, *others = map_arg(tuple(bound.values()), low)
    return editor.call(node.target, first, 1, *others)


def _reduce(editor: _Editor, node: Node) -> Node | None:
    bound = bind(node)
    x, sizes = bound["self"], _sizes(bound["self"])
    reduced = {positive(dim, len(sizes)) for dim in bound["dim"] or range(len(sizes))}
    groups = _joined([dim in reduced for dim in range(len(sizes))], sizes)
    value = editor.grouped(x, groups)
    dims = [position for position, group in enumerate(groups) if group[0] in reduced]
    if value is None or not dims:
        return None
    dtype = {"dtype": bound["dtype"]} if bound.get("dtype") is not None else {}
    return editor.call(node.target, value.node, dims, True, **dtype)


def _is_pointwise(node: Node) -> bool:
    target = node.target
    if not isinstance(target, OpOverload):
        return False
    tags = target.tags
    is_plain = torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags
    return is_plain or target._schema.name.rpartition("::")[2] in _PER_TENSOR


_Emitter = Callable[[_Editor, Node], Node | None]
_EMITTERS: Final[Mapping[Any, _Emitter]] = {
    **dict.fromkeys(_VIEWS, lambda editor, node: None),
    **dict.fromkeys(_ALONG, _along),
    **dict.fromkeys(_REDUCTIONS, _reduce),
    aten.expand.default: _expand,
    aten.permute.default: _permute,
}
