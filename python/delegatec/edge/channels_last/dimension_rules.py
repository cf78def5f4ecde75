# SPDX-License-Identifier: Apache-2.0
"""Rules of calls whose result has the dimensions of their operands, each computed alone or as a whole."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, operand_nodes, positive, shape_of
from delegatec.edge.channels_last.dimensions import Dimensions, Emit, Part, StoredDims, call, same_call
from delegatec.edge.channels_last.operation import Operation, OperationRule
from delegatec.edge.channels_last.storage import Storage
from delegatec.edge.legalize.rules.reductions import reduced_dims

aten = torch.ops.aten


def pointwise(node: Node) -> Operation | None:
    """A call that computes each element from those of its operands at the same position."""
    shape = shape_of(node)
    found = operand_nodes(node)
    # one element broadcasts to any shape
    operands = [each for each in found if math.prod(shape_of(each)) != 1] or found[:1]
    parts = []
    for operand in operands:
        sizes = shape_of(operand)
        lacks = len(shape) - len(sizes)
        parts.append(Part(sizes, tuple(dim - lacks if dim >= lacks else None for dim in range(len(shape)))))
    fixed = [each for each in found if each not in operands]

    def emit(storage: Storage, stored: dict[Node, Node], result_dims: StoredDims) -> Node:
        rank = len(result_dims.axes)
        for each in fixed:
            # the stored result may have fewer dimensions than this element, which would add some
            if len(shape_of(stored[each])) > rank:
                stored[each] = _element(storage, stored[each], rank)
        return same_call(storage, node, stored, result_dims)

    return Dimensions(node, operands, parts, _all(shape), (), emit, copies=False, fixed=fixed)


def along(name: str) -> OperationRule:
    """Returns the rule for calls along a dimension of the first operand, which an argument selects."""

    def rule(node: Node) -> Operation | None:
        bound, x = bind(node), node.all_input_nodes[0]
        rank = len(shape_of(x))
        dim = positive(bound[name], rank) if rank else 0

        def emit(storage: Storage, stored: dict[Node, Node], result_dims: StoredDims) -> Node:
            return _called(storage, node, stored, result_dims, **{name: result_dims.of(dim)})

        return one_operand(node, [dim], emit) if rank else None

    return rule


def reduction(node: Node) -> Operation | None:
    """A reduction; reduced dimensions may be at any position."""
    bound, x = bind(node), node.all_input_nodes[0]
    rank = len(shape_of(x))
    is_single, reduced = isinstance(bound["dim"], int), reduced_dims(node)
    result = _all(shape_of(node))
    if not bound["keepdim"]:
        kept = [dim for dim in range(rank) if dim not in reduced]
        result_dims = {dim: index for index, dim in enumerate(kept)}
        result = Part(shape_of(node), tuple(result_dims.get(dim) for dim in range(rank)))

    def emit(storage: Storage, stored: dict[Node, Node], result_dims: StoredDims) -> Node:
        found: Any = result_dims.all_of(*reduced)
        return _called(storage, node, stored, result_dims, dim=found[0] if is_single else found, keepdim=True)

    if all(shape_of(x)[dim] == 1 for dim in reduced):
        return None
    return one_operand(node, reduced if is_single else [], emit, result)


def position(node: Node) -> Operation | None:
    """A position of an extremum, along one dimension."""
    return None if bind(node)["dim"] is None else reduction(node)


def select(node: Node) -> Operation | None:
    """A selection, which is emitted as a slice."""
    bound, x = bind(node), node.all_input_nodes[0]
    rank = len(shape_of(x))
    dim = positive(bound["dim"], rank)
    if isinstance(bound["index"], Node):  # computed by sizes
        return None
    index = positive(bound["index"], shape_of(x)[dim])
    result = Part(
        shape_of(node),
        tuple(None if each == dim else each - (each > dim) for each in range(rank)),
    )

    def emit(storage: Storage, stored: dict[Node, Node], result_dims: StoredDims) -> Node:
        return call(
            storage, node, aten.slice.Tensor, result_dims, stored[x], result_dims.of(dim), index, index + 1
        )

    return one_operand(node, [dim], emit, result)


def pad(node: Node) -> Operation | None:
    """Padding with a scalar."""
    bound, x = bind(node), node.all_input_nodes[0]
    rank = len(shape_of(x))
    pads = bound["pad"]
    amounts = {rank - 1 - index // 2: pads[index : index + 2] for index in range(0, len(pads), 2)}
    padded = [dim for dim, pair in amounts.items() if any(pair)]

    def emit(storage: Storage, stored: dict[Node, Node], result_dims: StoredDims) -> Node:
        pairs = {result_dims.of(dim): amounts[dim] for dim in padded}
        last = len(result_dims.axes)
        moved = [pairs.get(index, (0, 0)) for index in range(last - 1, min(pairs, default=last) - 1, -1)]
        return _called(storage, node, stored, result_dims, pad=[amount for pair in moved for amount in pair])

    return one_operand(node, padded, emit)


def flip(node: Node) -> Operation | None:
    """A reversal of dimensions."""
    x = node.all_input_nodes[0]
    rank = len(shape_of(x))
    # a scalar has the dimension -1, too, of one element
    dims = [positive(dim, rank) for dim in bind(node)["dims"]] if rank else []
    dims = [dim for dim in dims if shape_of(x)[dim] != 1]

    def emit(storage: Storage, stored: dict[Node, Node], result_dims: StoredDims) -> Node:
        return _called(storage, node, stored, result_dims, dims=[result_dims.of(dim) for dim in dims])

    return one_operand(node, dims, emit, needs=False)


def pool(node: Node) -> Operation | None:
    """A pool along the dimensions that an argument lists."""
    dims = bind(node)["dims"]

    def emit(storage: Storage, stored: dict[Node, Node], result_dims: StoredDims) -> Node:
        return _called(storage, node, stored, result_dims, dims=[result_dims.of(dim) for dim in dims])

    return one_operand(node, dims, emit)


def expand(node: Node) -> Operation | None:
    """An expansion of dimensions of size 1."""
    x, rank = node.all_input_nodes[0], len(shape_of(node))

    def emit(storage: Storage, stored: dict[Node, Node], result_dims: StoredDims) -> Node:
        return call(storage, node, aten.expand.default, result_dims, stored[x], result_dims.sizes)

    return Dimensions(node, [x], [_last(shape_of(x), rank)], _all(shape_of(node)), (), emit)


def repeat(node: Node) -> Operation | None:
    """A repetition; repeated dimensions are not split."""
    x, rank = node.all_input_nodes[0], len(shape_of(node))
    times = bind(node)["repeats"]
    unsplit = [dim for dim, count in enumerate(times) if count != 1]

    def emit(storage: Storage, stored: dict[Node, Node], result_dims: StoredDims) -> Node:
        counts = [1] * len(result_dims.axes)
        for dim in unsplit:
            counts[result_dims.of(dim)] = times[dim]
        return _called(storage, node, stored, result_dims, repeats=counts)

    return Dimensions(node, [x], [_last(shape_of(x), rank)], _all(shape_of(node)), unsplit, emit)


def cat(node: Node) -> Operation | None:
    """A concatenation of tensors of one rank."""
    bound = bind(node)
    operands, rank = list(dict.fromkeys(bound["tensors"])), len(shape_of(node))
    if any(len(shape_of(each)) != rank for each in operands):
        return None
    dim = positive(bound["dim"], rank)
    if shape_of(node)[dim] == 1:
        return None

    def emit(storage: Storage, stored: dict[Node, Node], result_dims: StoredDims) -> Node:
        tensors = [stored[each] for each in bound["tensors"]]
        return call(storage, node, aten.cat.default, result_dims, tensors, result_dims.of(dim))

    return Dimensions(
        node, operands, [_all(shape_of(each)) for each in operands], _all(shape_of(node)), [dim], emit
    )


def on_first(node: Node) -> Operation | None:
    """A call that computes each element from that of its first operand; other operands are row-major."""

    def emit(storage: Storage, stored: dict[Node, Node], result_dims: StoredDims) -> Node:
        return same_call(storage, node, stored, result_dims)

    return one_operand(node, [], emit)


def one_operand(
    node: Node, unsplit: Sequence[int], emit: Emit, result: Part | None = None, needs: bool = True
) -> Operation | None:
    """Returns the operation of a call on its first operand; other operands are row-major.

    Args:
        node: the call.
        unsplit: dimensions that are not split.
        emit: emits it.
        result: for the result if it does not have the dimensions of the operand.
        needs: whether the call needs the positions of these dimensions, also if their size is 1.
    """
    x, *others = operand_nodes(node)
    result = result or _all(shape_of(node))
    part = _all(shape_of(x))
    if needs and any(part.size(dim) == result.size(dim) == 1 for dim in unsplit):
        return None
    return Dimensions(node, [x], [part], result, unsplit, emit, fixed=others)


def _all(shape: tuple[int, ...]) -> Part:
    return Part(shape, tuple(range(len(shape))))


def _last(shape: tuple[int, ...], rank: int) -> Part:
    """Returns a part whose dimensions are the last ones of a result."""
    lacks = rank - len(shape)
    return Part(shape, tuple(dim - lacks if dim >= lacks else None for dim in range(rank)))


def _element(storage: Storage, node: Node, rank: int) -> Node:
    """Returns a tensor of one element as one of a rank."""
    sizes = [1] * rank
    val = storage.builder.empty(sizes, dtype_of(node))
    return storage.builder.call(aten.view.default, node, sizes, val=val)


def _called(
    storage: Storage, node: Node, stored: Mapping[Node, Node], result_dims: StoredDims, **changes: Any
) -> Node:
    """Emits a call of the same operator with other arguments."""
    assert isinstance(node.target, OpOverload)
    bound = {**bind(node), **changes}
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for each in node.target._schema.arguments:
        value = bound[each.name]
        value = stored.get(value, value) if isinstance(value, Node) else value
        if not each.kwarg_only:
            args.append(value)
        elif each.name in node.kwargs or each.name in changes:
            kwargs[each.name] = value
    return call(storage, node, node.target, result_dims, *args, **kwargs)
