# SPDX-License-Identifier: Apache-2.0
"""Convolutions of channels-last images and volumes. There is no bias, and one padding for both sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from torch.fx import Node

from delegatec.backends.mlx.building.graph_builder import GraphBuilder
from delegatec.backends.mlx.building.values import Array, Int
from delegatec.backends.mlx.operators.row import Constraint, operator_row
from delegatec.backends.mlx.operators.rules import FLOAT_OPERANDS, SAME_DTYPES
from delegatec.edge.arguments import bind
from delegatec.edge.channels_last.operators import NHWC

_LETTERS: Final = "DHW"


def pairs(amounts: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the amounts before and after each dimension."""
    return list(zip(amounts[::2], amounts[1::2], strict=True))


def padded(b: GraphBuilder, x: Array, amounts: Sequence[tuple[int, int]], value: float = 0.0) -> Array:
    """Emits a Pad of the spatial dimensions of a channels-last value, unless all amounts are zero."""
    if not any(map(any, amounts)):
        return x
    everywhere = [(0, 0), *amounts, (0, 0)]
    shape = [size + before + after for size, (before, after) in zip(x.shape, everywhere, strict=True)]
    out = b.temporary(shape, x.dtype)
    flat = [Int(amount) for pair in everywhere for amount in pair]
    b.emit("Pad", x=x, out=out, amounts=flat, mode="constant", value=value)
    return out


def _fields(spatial: int, **values: Sequence[int]) -> dict[str, int]:
    """Returns the fields of a convolution, which have a letter for each of several dimensions."""
    letters = [""] if spatial == 1 else _LETTERS[-spatial:]
    return {
        f"{name}{letter}": value
        for name, several in values.items()
        for letter, value in zip(letters, several, strict=True)
    }


def _with_bias(b: GraphBuilder, node: Node, name: str, **fields: Any) -> None:
    bias, out = bind(node)["bias"], b.result(node)
    if bias is None:
        b.emit(name, out=out, **fields)
        return
    product = b.temporary(out.shape, out.dtype)
    b.emit(name, out=product, **fields)
    b.emit("Add", a=product, b=b.of(bias), out=out)


def _convolution(b: GraphBuilder, node: Node) -> None:
    """Pads the same on both sides if the elements that this adds are in no window."""
    bound = bind(node)
    x, amounts = b.of(bound["x"]), pairs(bound["padding"])
    spatial = len(amounts)
    is_even = all(
        0 <= before - after < stride for (before, after), stride in zip(amounts, bound["stride"], strict=True)
    )
    if not is_even:
        x = padded(b, x, amounts)
        amounts = [(0, 0)] * spatial
    fields = _fields(
        spatial,
        stride=bound["stride"],
        padding=[before for before, _ in amounts],
        dilation=bound["dilation"],
    )
    groups = bound.get("groups", 1)
    _with_bias(b, node, f"Conv{spatial}d", x=x, w=b.of(bound["weight"]), groups=groups, **fields)


def _transposed(b: GraphBuilder, node: Node) -> None:
    """Padding removes elements of both sides; output padding adds elements after the last ones."""
    bound = bind(node)
    removed = [(-before, -after) for before, after in pairs(bound["out_padding"])]
    fields = _fields(
        2,
        stride=bound["stride"],
        padding=[before for before, _ in removed],
        dilation=bound["dilation"],
        outputPadding=[before - after for before, after in removed],
    )
    x, weight = b.of(bound["x"]), b.of(bound["weight"])
    _with_bias(b, node, "ConvTranspose2d", x=x, w=weight, groups=bound["groups"], **fields)


def _uneven(node: Node, _: object) -> str | None:
    bound = bind(node)
    for (before, after), stride in zip(pairs(bound["out_padding"]), bound["stride"], strict=True):
        if before > 0 or not 0 <= after - before < stride:
            return f"out_padding is {list(bound['out_padding'])}"
    return None


def _integers(node: Node, _: object) -> str | None:
    bound = bind(node)
    zeros = [bound.get(name, 0) for name in ("x_zero", "weight_zero")]
    return f"zero points are {zeros}" if any(zeros) else None


def _other_order(node: Node, _: object) -> str | None:
    order = bind(node).get("weight_order", "OHWI")
    return None if order == "OHWI" else f"weight_order is {order}"


def _negative(node: Node, _: object) -> str | None:
    padding = bind(node)["padding"]
    return f"padding is {list(padding)}" if min(padding) < 0 else None


_RULES: Final = (
    FLOAT_OPERANDS,
    SAME_DTYPES,
    Constraint("argument", "Zero points are 0.", _integers),
    Constraint("argument", "The weight is in the order OHWI.", _other_order),
)
_PADDING: Final = Constraint("argument", "Padding is not negative.", _negative)

ROWS: Final = (
    *(
        operator_row(operator, _convolution, *_RULES, _PADDING, note="padded first if the sides differ")
        for operator in (NHWC.conv2d.default, NHWC.conv3d.default)
    ),
    operator_row(
        NHWC.conv_transpose2d.default,
        _transposed,
        *_RULES,
        Constraint(
            "argument",
            "Elements are removed before the first ones, and less than a stride fewer after the last ones.",
            _uneven,
        ),
    ),
)
