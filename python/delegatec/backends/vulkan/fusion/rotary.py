# SPDX-License-Identifier: Apache-2.0
"""Rotary position embeddings of queries and keys, as one call."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.vulkan.dtypes import FLOATS
from delegatec.backends.vulkan.operators.runtime import RUNTIME
from delegatec.edge.analysis.halves import has_equal_halves
from delegatec.edge.arguments import bind, dtype_of, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.value import Value
from delegatec.edge.patterns.match import Match
from delegatec.edge.patterns.pattern import Argument, Call, Var
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import is_dynamic, is_scalar, same_sizes

aten = torch.ops.aten

_RANK: Final = 4
_TEXEL: Final = 4
_HEADS: Final = [0, 2, 1, 3]

_X: Final = Var("x").where(lambda x: not is_scalar(x) and len(shape_of(x)) > 0)
_TURNED: Final = Call(aten.cat.default, [-Var("second"), Var("first")], Argument("dim"))
_ROTATED: Final = _X * Var("cosines") + _TURNED * Var("sines")


@dataclass(frozen=True)
class _Part:
    """Elements of each row of a tensor, from `start` to `end`."""

    source: Node
    start: int
    end: int


@dataclass(frozen=True)
class _Rotation:
    """A rotated tensor.

    Attributes:
        result: the rotated tensor, with the elements that pass through.
        part: the tensor before the rotation.
        cosines: factors of its elements, those that pass through excepted.
        sines: factors of the elements of the other half.
        heads_first: whether its dimensions are [batch, heads, rows, depth], else [batch, rows, heads, depth].
    """

    result: Node
    part: _Part
    cosines: Node
    sines: Node
    heads_first: bool

    @property
    def heads(self) -> int:
        """Returns the number of heads."""
        return shape_of(self.result)[1 if self.heads_first else 2]

    @property
    def key(self) -> tuple[Any, ...]:
        """Returns the properties that queries and keys share."""
        sizes = shape_of(self.result)
        return self.cosines, self.sines, self.heads_first, sizes[-1]


def fuse_rotary(program: EdgeProgram) -> bool:
    """Replaces `x * cos + cat([-x[second half], x[first half]]) * sin` of queries and keys.

    Both are rotated by the same cosines and sines, of which the operator reads the first half of each row. It
    has the heads of a row side by side, so that permutations follow the rotation.

    Args:
        program: a private program, edited in place.

    Returns:
        Whether it changed.
    """
    builder, constants = Builder(program), program.fixed_constants()
    tables: dict[Node, Node] = {}
    waiting: dict[tuple[Any, ...], _Rotation] = {}
    changed = False
    for node in list(program.graph.nodes):
        rotation = _rotation(node, constants)
        if rotation is None:
            continue
        other = waiting.pop(rotation.key, None)
        if other is None or not _moved_behind(*sorted((other.result, rotation.result))):
            waiting[rotation.key] = rotation
            continue
        queries, keys = sorted((other, rotation), key=lambda each: -each.heads)
        for table in (rotation.cosines, rotation.sines):
            if table not in tables:
                tables[table] = _table(builder, table)
        _fuse(builder.at(max(other.result, rotation.result)), queries, keys, tables)
        changed = True
    if changed:
        program.graph.eliminate_dead_code()
        program.erase_unused_placeholders()
    return changed


def _rotation(node: Node, constants: Mapping[str, torch.Tensor]) -> _Rotation | None:
    """Returns the rotation whose last sum a node is, if the operator computes it."""
    if node.target not in _ROTATED.targets or is_dynamic(node.meta["val"].shape):
        return None
    matches = (match.values for match in _ROTATED.matches(node, Match()))
    found = next((values for values in matches if _is_turned(**values)), None)
    if found is None:
        return None
    shape, dtype, part = shape_of(node), dtype_of(node), _part(found["x"])
    cosines, sines = found["cosines"], found["sines"]
    if dtype not in FLOATS or len(shape) != _RANK or shape[0] != 1:
        return None
    if not same_sizes(shape_of(part.source)[:-1], shape[:-1]) or part.end - part.start != shape[-1]:
        return None
    _, second, third, size = shape
    sizes = [shape_of(each) for each in (cosines, sines)]
    heads_first = all(each == (*[1] * (len(each) - 2), third, size) for each in sizes)
    if not heads_first and sizes != [(1, second, 1, size)] * 2:
        return None
    if size % (2 * _TEXEL) or {dtype_of(each) for each in (part.source, cosines, sines)} != {dtype}:
        return None
    if not (has_equal_halves(cosines, constants) and has_equal_halves(sines, constants)):
        return None
    result, part = _with_rest(node, part)
    if shape_of(result)[-1] % _TEXEL:
        return None
    return _Rotation(result, part, cosines, sines, heads_first)


def _is_turned(x: Node, first: Node, second: Node, dim: int, **_: Node) -> bool:
    """Whether nodes are the halves of the rows of `x`."""
    part, (*outer, size) = _part(x), shape_of(x)
    middle = part.start + size // 2
    return (
        positive(dim, len(outer) + 1) == len(outer)
        and _part(first) == _Part(part.source, part.start, middle)
        and _part(second) == _Part(part.source, middle, part.end)
        and size % 2 == 0
    )


def _joined(node: Node) -> tuple[Node, Node] | None:
    """Returns the two nodes whose rows a node concatenates."""
    if node.target is not aten.cat.default:
        return None
    bound = bind(node)
    if len(bound["tensors"]) != 2 or positive(bound["dim"], len(shape_of(node))) != len(shape_of(node)) - 1:
        return None
    first, second = bound["tensors"]
    return first, second


def _part(node: Node) -> _Part:
    """Returns the part of the source tensor that a slice node selects."""
    if node.target is aten.slice.Tensor:
        bound = bind(node)
        shape = shape_of(bound["self"])
        is_static = all(isinstance(each, int | None) for each in (bound["start"], bound["end"], shape[-1]))
        if positive(bound["dim"], len(shape)) == len(shape) - 1 and bound["step"] == 1 and is_static:
            inner = _part(bound["self"])
            start, end, _ = slice(bound["start"], bound["end"]).indices(shape[-1])
            return _Part(inner.source, inner.start + start, inner.start + end)
    return _Part(node, 0, shape_of(node)[-1])


def _with_rest(node: Node, part: _Part) -> tuple[Node, _Part]:
    """Returns the result and the operand of a rotation with the elements that pass through, if any do."""
    (user, *others) = node.users or [node]
    joined = None if others else _joined(user)
    if joined is None or joined[0] is not node:
        return node, part
    rest = _part(joined[1])
    if (rest.source, rest.start) != (part.source, part.end):
        return node, part
    return user, _Part(part.source, part.start, rest.end)


def _moved_behind(first: Node, second: Node) -> bool:
    """Moves the consumers of the first node after the second, unless the second also consumes it."""
    users, moved, node = {first}, [], first.next
    while node is not second:
        if users & set(node.all_input_nodes):
            users.add(node)
            moved.append(node)
        node = node.next
    if users & set(second.all_input_nodes):
        return False
    for each in reversed(moved):
        second.append(each)
    return True


def _table(builder: Builder, node: Node) -> Node:
    """Returns the rows of cosines or sines, one a position."""
    shape = shape_of(node)
    rows = (shape[0] * shape[1] * shape[2] if len(shape) == _RANK else shape[-2], shape[-1])
    constant = builder.program.constants.get(node.name)
    if constant is not None:
        return builder.derived(node, constant.detach().reshape(rows))
    after = node.next
    while after.op == "placeholder":
        after = after.next
    return Value(builder.at(after), node).view(*rows).node


def _fuse(builder: Builder, queries: _Rotation, keys: _Rotation, tables: Mapping[Node, Node]) -> None:
    operands = [_operand(builder, each) for each in (queries, keys)]
    call = builder.call(
        RUNTIME.apply_rotary_emb_hf.default,
        *(each.node for each in operands),
        *(tables[table] for table in (queries.cosines, queries.sines)),
        0,
        val=tuple(builder.empty(each.shape, each.dtype) for each in operands),
    )
    for index, rotation in enumerate((queries, keys)):
        item = builder.call(operator.getitem, call, index, val=call.meta["val"][index])
        result = Value(builder, item)
        rotation.result.replace_all_uses_with((_swapped(result) if rotation.heads_first else result).node)


def _operand(builder: Builder, rotation: _Rotation) -> Value:
    """Returns the tensor to rotate, as [batch, rows, heads, depth]."""
    part = rotation.part
    source = part.source
    if not rotation.heads_first:
        x = Value(builder, source)
    elif source.target is aten.permute.default and bind(source)["dims"] == _HEADS:
        x = Value(builder, source.all_input_nodes[0])
    else:
        x = _swapped(Value(builder, source))
    return x if part.end - part.start == x.shape[-1] else x.slice(_RANK - 1, part.start, part.end)


def _swapped(x: Value) -> Value:
    """Exchanges heads and rows."""
    batch, first, second, depth = x.shape
    if 1 not in (first, second):
        return x.permute(*_HEADS)
    is_view = x.node.target is aten.view.default
    source = Value(x.builder, x.node.all_input_nodes[0]) if is_view else x
    return source.view(batch, second, first, depth)
