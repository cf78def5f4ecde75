# SPDX-License-Identifier: Apache-2.0
"""Rules of layers and products, whose dimensions have labels, as in `einsum`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from torch.fx import Node

from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.channels_last.labeled_op import Axis, LabeledOp
from delegatec.edge.channels_last.operation import Operation, OperationRule


def einsum(equation: str, free: str, names: Sequence[str]) -> OperationRule:
    """Returns the rule for operands with a letter per dimension, as in `einsum`; a result comes last.

    Args:
        equation: such as "mk,kn->mn".
        free: letters of the dimensions with elements in any order.
        names: arguments that are the operands; those that are None are left out.
    """
    operands, _, result = equation.partition("->")
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
        return LabeledOp(node, nodes, [_axes(text) for text in letters], free)

    return rule


def _axes(text: str) -> list[Axis]:
    return [Axis(letter, (dim,)) for dim, letter in enumerate(text)]


def linear(node: Node) -> Operation | None:
    """A linear layer of vectors in any order."""
    bound = bind(node)
    x, weight, bias = bound["input"], bound["weight"], bound["bias"]
    rank = len(shape_of(x))
    rows = () if rank == 1 else (Axis("m", tuple(range(rank - 1))),)
    axes = [[*rows, Axis("k", (rank - 1,))], _axes("nk")]
    if bias is not None:
        axes.append(_axes("n"))
    operands = [x, weight, *([] if bias is None else [bias])]
    if len(set(operands)) < len(operands):
        return None
    return LabeledOp(node, operands, [*axes, [*rows, Axis("n", (rank - 1,))]], "mkn")


def convolution(node: Node) -> Operation | None:
    """A channels-last convolution: channels have any order if it is dense, depthwise or of single pixels."""
    bound = bind(node)
    rank = len(shape_of(node))
    order = bound.get("weight_order", _ORDERS[rank])
    if bound.get("groups", 1) == 1:
        return (_pixels(node) if order == "OHWI" else None) or _dense(order, rank)(node)
    if shape_of(node)[-1] == shape_of(bound["x"])[-1] == bound["groups"]:
        return _depthwise(order, rank)(node)
    return _in_groups(order, rank)(node)


def transposed_convolution(node: Node) -> Operation | None:
    """A channels-last transposed convolution."""
    bound = bind(node)
    return (_dense if bound["groups"] == 1 else _in_groups)(bound["weight_order"], 4)(node)


def _pixels(node: Node) -> Operation | None:
    """A convolution of each pixel alone: pixels may have any order."""
    bound = bind(node)
    if shape_of(bound["weight"])[1:3] != (1, 1) or set(bound["stride"]) != {1} or any(bound["padding"]):
        return None
    if len(shape_of(node)) != 4:
        return None
    ones, pixels = Axis("1", ()), Axis("m", (0, 1, 2))
    operands = [bound["x"], bound["weight"]]
    axes = [[ones, pixels, ones, Axis("c", (3,))], _axes("oyxc")]
    if bound["bias"] is not None:
        operands.append(bound["bias"])
        axes.append(_axes("o"))
    if len(set(operands)) < len(operands):
        return None
    return LabeledOp(node, operands, [*axes, [ones, pixels, ones, Axis("o", (3,))]], "mco")


_NAMES: Final = ("x", "weight", "bias")
# Dimensions of weights; "p", "q" and "r" are sizes of the result.
_LETTERS: Final = str.maketrans("OIDHW", "oczyx")
# By the rank of the images: the order of weights, and the dimensions of images and results without channels.
_ORDERS: Final = {3: "OWI", 4: "OHWI", 5: "ODHWI"}
_SIZES: Final = {3: ("nw", "nq"), 4: ("nhw", "npq"), 5: ("ndhw", "nrpq")}


@cache
def _dense(order: str, rank: int) -> OperationRule:
    weight, (x, result) = order.translate(_LETTERS), _SIZES[rank]
    return einsum(f"{x}c,{weight},o->{result}o", "co", _NAMES)


@cache
def _depthwise(order: str, rank: int) -> OperationRule:
    weight, (x, result) = order.translate(_LETTERS).replace("c", "i").replace("o", "c"), _SIZES[rank]
    return einsum(f"{x}c,{weight},c->{result}c", "c", _NAMES)


@cache
def _in_groups(order: str, rank: int) -> OperationRule:
    # channels in groups are not those of the weight: no dimension has elements in any order
    weight, (x, result) = order.translate(_LETTERS).replace("c", "i").replace("o", "u"), _SIZES[rank]
    return einsum(f"{x}c,{weight},o->{result}o", "", _NAMES)


POOL: Final = einsum("nhwc->npqc", "c", ("x",))
