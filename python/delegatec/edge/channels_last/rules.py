# SPDX-License-Identifier: Apache-2.0
"""The calls of ATen that can be computed in other orders of dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import bind, operand_nodes, positive, shape_of
from delegatec.edge.channels_last.dimensions import Dimensions, Emit, Part, Places, call, same_call
from delegatec.edge.channels_last.groups import Grouped, Role
from delegatec.edge.channels_last.moves import Permute, View
from delegatec.edge.channels_last.operation import Fixed, Operation
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.channels_last.storage import Storage

aten = torch.ops.aten

OperationRule = Callable[[Node], Operation | None]
"""Returns how a call can be computed; None if all its values have to be row-major."""
OperationRules = Mapping[OpOverload, OperationRule]


def operation_of(node: Node, rules: OperationRules) -> Operation:
    """Returns how a node can be computed."""
    rule = rules.get(node.target) if isinstance(node.target, OpOverload) else None
    if rule is None and _is_pointwise(node):
        rule = pointwise
    values = [node.meta.get("val"), *(each.meta["val"] for each in operand_nodes(node))]
    # layouts do not describe empty tensors
    is_known = all(isinstance(each, torch.Tensor) and 0 not in each.shape for each in values)
    found = rule(node) if rule is not None and is_known else None
    return found or Fixed(node, operand_nodes(node))


def _is_pointwise(node: Node) -> bool:
    tags = node.target.tags if isinstance(node.target, OpOverload) else ()
    return torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags


# ---- element by element ----------------------------------------------------------------------------------


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

    def emit(storage: Storage, stored: dict[Node, Node], places: Places) -> Node:
        return same_call(storage, node, stored, places)

    return Dimensions(node, operands, parts, _all(shape), (), emit, copies=False, fixed=fixed)


# ---- of one operand --------------------------------------------------------------------------------------


def along(name: str) -> OperationRule:
    """Returns the rule for calls along a dimension, which an argument numbers, of the first operand."""

    def rule(node: Node) -> Operation | None:
        bound, x = bind(node), node.all_input_nodes[0]
        rank = len(shape_of(x))
        dim = positive(bound[name], rank) if rank else 0

        def emit(storage: Storage, stored: dict[Node, Node], places: Places) -> Node:
            return _called(storage, node, stored, places, **{name: places.of(dim)})

        return one_operand(node, [dim], emit) if rank else None

    return rule


def _reduction(node: Node) -> Operation | None:
    bound, x = bind(node), node.all_input_nodes[0]
    rank = len(shape_of(x))
    dims = bound["dim"]
    is_single = isinstance(dims, int)
    given = [dims] if is_single else dims
    reduced = sorted({positive(dim, rank) for dim in given or range(rank)}) if rank else []
    result = _all(shape_of(node))
    if not bound["keepdim"]:
        kept = [dim for dim in range(rank) if dim not in reduced]
        places = {dim: place for place, dim in enumerate(kept)}
        result = Part(shape_of(node), tuple(places.get(dim) for dim in range(rank)))

    def emit(storage: Storage, stored: dict[Node, Node], places: Places) -> Node:
        found: Any = places.all_of(*reduced)
        return _called(storage, node, stored, places, dim=found[0] if is_single else found, keepdim=True)

    if all(shape_of(x)[dim] == 1 for dim in reduced):
        return None
    return one_operand(node, reduced if is_single else [], emit, result)


def _position(node: Node) -> Operation | None:
    """A position of an extremum, along one dimension."""
    return None if bind(node)["dim"] is None else _reduction(node)


def _select(node: Node) -> Operation | None:
    bound, x = bind(node), node.all_input_nodes[0]
    rank = len(shape_of(x))
    dim = positive(bound["dim"], rank)
    index = positive(bound["index"], shape_of(x)[dim])
    result = Part(
        shape_of(node),
        tuple(None if each == dim else each - (each > dim) for each in range(rank)),
    )

    def emit(storage: Storage, stored: dict[Node, Node], places: Places) -> Node:
        return call(storage, node, aten.slice.Tensor, places, stored[x], places.of(dim), index, index + 1)

    return one_operand(node, [dim], emit, result)


def _pad(node: Node) -> Operation | None:
    bound, x = bind(node), node.all_input_nodes[0]
    rank = len(shape_of(x))
    pads = bound["pad"]
    amounts = {rank - 1 - place // 2: pads[place : place + 2] for place in range(0, len(pads), 2)}
    padded = [dim for dim, pair in amounts.items() if any(pair)]

    def emit(storage: Storage, stored: dict[Node, Node], places: Places) -> Node:
        pairs = {places.of(dim): amounts[dim] for dim in padded}
        last = len(places.axes)
        moved = [pairs.get(place, (0, 0)) for place in range(last - 1, min(pairs, default=last) - 1, -1)]
        return _called(storage, node, stored, places, pad=[amount for pair in moved for amount in pair])

    return one_operand(node, padded, emit)


def _flip(node: Node) -> Operation | None:
    x = node.all_input_nodes[0]
    rank = len(shape_of(x))
    dims = [positive(dim, rank) for dim in bind(node)["dims"]]
    dims = [dim for dim in dims if shape_of(x)[dim] != 1]

    def emit(storage: Storage, stored: dict[Node, Node], places: Places) -> Node:
        return _called(storage, node, stored, places, dims=[places.of(dim) for dim in dims])

    return one_operand(node, dims, emit, needs=False)


def _expand(node: Node) -> Operation | None:
    x, rank = node.all_input_nodes[0], len(shape_of(node))

    def emit(storage: Storage, stored: dict[Node, Node], places: Places) -> Node:
        return call(storage, node, aten.expand.default, places, stored[x], places.sizes)

    return Dimensions(node, [x], [_last(shape_of(x), rank)], _all(shape_of(node)), (), emit)


def _repeat(node: Node) -> Operation | None:
    x, rank = node.all_input_nodes[0], len(shape_of(node))
    times = bind(node)["repeats"]
    whole = [dim for dim, count in enumerate(times) if count != 1]

    def emit(storage: Storage, stored: dict[Node, Node], places: Places) -> Node:
        counts = [1] * len(places.axes)
        for dim in whole:
            counts[places.of(dim)] = times[dim]
        return _called(storage, node, stored, places, repeats=counts)

    return Dimensions(node, [x], [_last(shape_of(x), rank)], _all(shape_of(node)), whole, emit)


def _cat(node: Node) -> Operation | None:
    bound = bind(node)
    operands, rank = list(dict.fromkeys(bound["tensors"])), len(shape_of(node))
    if any(len(shape_of(each)) != rank for each in operands):
        return None
    dim = positive(bound["dim"], rank)
    if shape_of(node)[dim] == 1:
        return None

    def emit(storage: Storage, stored: dict[Node, Node], places: Places) -> Node:
        tensors = [stored[each] for each in bound["tensors"]]
        return call(storage, node, aten.cat.default, places, tensors, places.of(dim))

    return Dimensions(
        node, operands, [_all(shape_of(each)) for each in operands], _all(shape_of(node)), [dim], emit
    )


def on_first(node: Node) -> Operation | None:
    """A call that computes each element from that of its first operand; other operands are row-major."""

    def emit(storage: Storage, stored: dict[Node, Node], places: Places) -> Node:
        return same_call(storage, node, stored, places)

    return one_operand(node, [], emit)


def one_operand(
    node: Node, whole: Sequence[int], emit: Emit, result: Part | None = None, needs: bool = True
) -> Operation | None:
    """Returns the operation of a call on its first operand; other operands are row-major.

    Args:
        node: the call.
        whole: dimensions that are not divided.
        emit: emits it.
        result: for the result if it does not have the dimensions of the operand.
        needs: whether the call needs the places of these dimensions, also if their size is 1.
    """
    x, *others = operand_nodes(node)
    result = result or _all(shape_of(node))
    part = _all(shape_of(x))
    if needs and any(part.size(dim) == result.size(dim) == 1 for dim in whole):
        return None
    return Dimensions(node, [x], [part], result, whole, emit, fixed=others)


def _all(shape: tuple[int, ...]) -> Part:
    return Part(shape, tuple(range(len(shape))))


def _last(shape: tuple[int, ...], rank: int) -> Part:
    """Returns a part whose dimensions are the last ones of a result."""
    lacks = rank - len(shape)
    return Part(shape, tuple(dim - lacks if dim >= lacks else None for dim in range(rank)))


def _called(
    storage: Storage, node: Node, stored: Mapping[Node, Node], places: Places, **changes: Any
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
    return call(storage, node, node.target, places, *args, **kwargs)


# ---- with roles ------------------------------------------------------------------------------------------


def grouped(roles: str, free: str, names: Sequence[str]) -> OperationRule:
    """Returns the rule for operands with a letter per dimension, as in `einsum`; a result comes last.

    Args:
        roles: such as "mk,kn->mn".
        free: letters of the dimensions with elements in any order.
        names: arguments that are the operands; those that are None are left out.
    """
    operands, _, result = roles.partition("->")
    texts = operands.split(",")

    def rule(node: Node) -> Operation | None:
        bound = bind(node)
        given = [
            (bound[name], text) for name, text in zip(names, texts, strict=True) if bound[name] is not None
        ]
        nodes = [each for each, _ in given]
        if len(set(nodes)) < len(nodes):
            return None
        letters = [*(text for _, text in given), result]
        values = [*nodes, node]
        sizes: dict[str, int] = {}
        for each, text in zip(values, letters, strict=True):
            shape = shape_of(each)
            if len(shape) != len(text):
                return None
            if any(sizes.setdefault(letter, size) != size for letter, size in zip(text, shape, strict=True)):
                return None
        return Grouped(node, nodes, [_roles(text) for text in letters], free)

    return rule


def _roles(text: str) -> list[Role]:
    return [Role(letter, (dim,)) for dim, letter in enumerate(text)]


def _linear(node: Node) -> Operation | None:
    bound = bind(node)
    x, weight, bias = bound["input"], bound["weight"], bound["bias"]
    rank = len(shape_of(x))
    rows = () if rank == 1 else (Role("m", tuple(range(rank - 1))),)
    roles = [[*rows, Role("k", (rank - 1,))], _roles("nk")]
    if bias is not None:
        roles.append(_roles("n"))
    operands = [x, weight, *([] if bias is None else [bias])]
    if len(set(operands)) < len(operands):
        return None
    return Grouped(node, operands, [*roles, [*rows, Role("n", (rank - 1,))]], "mkn")


def _convolution(node: Node) -> Operation | None:
    bound = bind(node)
    if bound.get("groups", 1) == 1:
        return _pixels(node) or _BY_RANK[len(shape_of(node))](node)
    if shape_of(node)[3] == shape_of(bound["x"])[3] == bound["groups"]:
        return _DEPTHWISE(node)
    return None


def _pixels(node: Node) -> Operation | None:
    """A convolution of each pixel alone: pixels may have any order."""
    bound = bind(node)
    if shape_of(bound["weight"])[1:3] != (1, 1) or set(bound["stride"]) != {1} or any(bound["padding"]):
        return None
    if len(shape_of(node)) != 4:
        return None
    ones, pixels = Role("1", ()), Role("m", (0, 1, 2))
    operands = [bound["x"], bound["weight"]]
    roles = [[ones, pixels, ones, Role("c", (3,))], _roles("oyxc")]
    if bound["bias"] is not None:
        operands.append(bound["bias"])
        roles.append(_roles("o"))
    if len(set(operands)) < len(operands):
        return None
    return Grouped(node, operands, [*roles, [ones, pixels, ones, Role("o", (3,))]], "mco")


_NAMES: Final = ("x", "weight", "bias")
# "p", "q" and "r" are sizes of the result, "y", "x" and "z" of the kernel
_BY_RANK: Final = {
    4: grouped("nhwc,oyxc,o->npqo", "co", _NAMES),
    5: grouped("ndhwc,ozyxc,o->nrpqo", "co", _NAMES),
}
_DEPTHWISE: Final = grouped("nhwc,cyxi,c->npqc", "c", _NAMES)
_POOL: Final = grouped("nhwc->npqc", "c", ("x",))

# Without torch's tag for elementwise operators.
_POINTWISE: Final = (
    aten._to_copy.default,
    aten.alias.default,
    aten.clone.default,
    aten.floor_divide.default,
    aten.hardswish.default,
    aten.where.ScalarOther,
    aten.where.ScalarSelf,
)

REDUCTIONS: Final[Iterable[OpOverload]] = (
    aten.all.dim,
    aten.all.dims,
    aten.amax.default,
    aten.amin.default,
    aten.any.dim,
    aten.any.dims,
    aten.mean.dim,
    aten.prod.dim_int,
    aten.sum.dim_IntList,
    aten.var.correction,
)

RULES: Final[OperationRules] = {
    aten.permute.default: Permute,
    **dict.fromkeys((aten.view.default, aten.squeeze.dims, aten.unsqueeze.default), View),
    **dict.fromkeys(_POINTWISE, pointwise),
    **dict.fromkeys(REDUCTIONS, _reduction),
    **dict.fromkeys((aten.argmax.default, aten.argmin.default), _position),
    **dict.fromkeys(
        (
            aten._log_softmax.default,
            aten._softmax.default,
            aten.cumsum.default,
            aten.index_select.default,
            aten.slice.Tensor,
        ),
        along("dim"),
    ),
    aten.select.int: _select,
    aten.constant_pad_nd.default: _pad,
    aten.flip.default: _flip,
    aten.expand.default: _expand,
    aten.repeat.default: _repeat,
    aten.cat.default: _cat,
    aten.addmm.default: grouped("n,mk,kn->mn", "mkn", ("self", "mat1", "mat2")),
    aten.mm.default: grouped("mk,kn->mn", "mkn", ("self", "mat2")),
    aten.bmm.default: grouped("bmk,bkn->bmn", "bmkn", ("self", "mat2")),
    aten.linear.default: _linear,
    NHWC.conv2d.default: _convolution,
    NHWC.conv3d.default: _convolution,
    NHWC.conv_transpose2d.default: _BY_RANK[4],
    **dict.fromkeys((NHWC.max_pool2d.default, NHWC.avg_pool2d.default, NHWC.resize.default), _POOL),
}
