# SPDX-License-Identifier: Apache-2.0
"""Calls on many dimensions, as calls on few, for targets that limit them."""

from __future__ import annotations

import math
import operator
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, positive, read_results, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import Value, full, value_of

aten = torch.ops.aten

FEW: Final = 4
"""Dimensions that a target supports at least."""


def low_rank(x: Value, dim: int) -> tuple[Value, int]:
    """Returns a value of one to four dimensions, those before and after `dim` flattened, and `dim`."""
    if not x.shape:
        return x.view(1), 0
    dim = positive(dim, x.rank)
    if x.rank <= FEW:
        return x, dim
    after = math.prod(x.shape[dim + 1 :])
    return x.view(math.prod(x.shape[:dim]), x.shape[dim], *([after] if after > 1 else [])), 1


def again(builder: Builder, node: Node, **arguments: Any) -> Any:
    """Repeats a call with other arguments, and views its results in the shapes of the original ones.

    The results keep their dtypes: that of a function of integers is float16 in a program of float16, where
    torch promotes to float32.
    """
    assert isinstance(node.target, OpOverload)
    given = {**bind(node), **arguments}
    keywords = {each.name: given.pop(each.name) for each in node.target._schema.arguments if each.kwarg_only}
    results = builder.call(node.target, *given.values(), **keywords)
    results.meta["val"] = _in_dtypes(builder, results.meta["val"], node.meta["val"])
    if isinstance(node.meta["val"], torch.Tensor):
        return Value(builder, results).view(*shape_of(node)).node
    read = read_results(node)
    return [
        Value(builder, builder.call(operator.getitem, results, index)).view(*value.shape).node
        if index in read
        else None
        for index, value in enumerate(node.meta["val"])
    ]


def _in_dtypes(builder: Builder, found: Any, wanted: Any) -> Any:
    """Returns values in the dtypes of others."""
    if isinstance(found, (tuple, list)):
        return type(found)(_in_dtypes(builder, *pair) for pair in zip(found, wanted, strict=True))
    return found if found.dtype == wanted.dtype else builder.empty(found.shape, wanted.dtype)


def of_rank_one(builder: Builder, node: Node) -> Any:
    """Computes an elementwise function of 0-d tensors on one dimension."""
    if shape_of(node):
        return None
    bound = bind(node)
    operands = {
        name: value_of(builder, each).view(1).node for name, each in bound.items() if isinstance(each, Node)
    }
    return again(builder, node, **operands)


def of_few_dimensions(builder: Builder, node: Node) -> Any:
    """Computes an elementwise function on two dimensions instead of more than four."""
    shape = shape_of(node)
    if len(shape) <= FEW:
        return None
    bound = bind(node)
    operands = {name: value_of(builder, each) for name, each in bound.items() if isinstance(each, Node)}
    rows = (math.prod(shape[:-1]), shape[-1])
    joined = {
        name: x.view(*[1] * (len(shape) - x.rank), *x.shape).expand(*shape).view(*rows).node
        for name, x in operands.items()
    }
    return again(builder, node, **joined)


def _convert(builder: Builder, node: Node) -> Node | None:
    x = value_of(builder, bind(node)["self"])
    if x.rank <= FEW:
        return None
    return x.view(math.prod(x.shape[:-1]), x.shape[-1]).to(dtype_of(node)).view(*x.shape).node


def _full(builder: Builder, node: Node) -> Node | None:
    """Fills two dimensions instead of more than four."""
    shape = shape_of(node)
    if len(shape) <= FEW:
        return None
    return full(builder, (math.prod(shape),), bind(node)["fill_value"], dtype_of(node)).view(*shape).node


def _cat(builder: Builder, node: Node) -> Any:
    if len(shape_of(node)) <= FEW:
        return None
    bound = bind(node)
    parts = [low_rank(value_of(builder, each), bound["dim"]) for each in bound["tensors"]]
    return again(builder, node, tensors=[part.node for part, _ in parts], dim=parts[0][1])


def _split(builder: Builder, node: Node) -> Any:
    x = value_of(builder, bind(node)["self"])
    if x.rank <= FEW:
        return None
    joined, dim = low_rank(x, bind(node)["dim"])
    return again(builder, node, self=joined.node, dim=dim)


def _pad(builder: Builder, node: Node) -> Any:
    """Pads at once if flattening the dimensions without padding suffices, else one dimension at a time."""
    bound = bind(node)
    x, amounts, value = value_of(builder, bound["self"]), bound["pad"], bound["value"] or 0
    if x.rank <= FEW or any(isinstance(each, Node) or each < 0 for each in amounts):
        return None
    pairs = list(zip(amounts[::2], amounts[1::2], strict=True))[::-1]
    pairs = [*[(0, 0)] * (x.rank - len(pairs)), *pairs]
    shape: list[int] = []
    joined: list[tuple[int, int]] = []
    for size, pair in zip(x.shape, pairs, strict=True):
        if joined and pair == joined[-1] == (0, 0):
            shape[-1] *= size
        else:
            shape.append(size)
            joined.append(pair)
    if len(shape) <= FEW:
        flat = x.view(*shape).pad([amount for pair in joined[::-1] for amount in pair], value)
        return flat.view(*shape_of(node)).node
    for dim, pair in enumerate(pairs):
        if pair != (0, 0):
            flat, axis = low_rank(x, dim)
            flat = flat.pad([*[0, 0] * (flat.rank - 1 - axis), *pair], value)
            x = flat.view(*x.shape[:dim], flat.shape[axis], *x.shape[dim + 1 :])
    return x.node


ELEMENTWISE: Final = (
    Rewrite(aten._to_copy.default, _convert),
    Rewrite(aten.full.default, _full, computes=False),
)
MOVES: Final = (
    Rewrite(aten.constant_pad_nd.default, _pad, note="unpadded dimensions merged", computes=False),
    Rewrite(aten.cat.default, _cat, computes=False),
    Rewrite(aten.split_with_sizes.default, _split, computes=False),
)
