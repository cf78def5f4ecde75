# SPDX-License-Identifier: Apache-2.0
"""Convolutions of channels-last images and volumes. There is no bias, and one padding for both sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from torch.fx import Node

from delegatec.backends.mlx.building.graph_builder import GraphBuilder
from delegatec.backends.mlx.building.moves import padded, pairs, reshaped, transposed
from delegatec.backends.mlx.building.values import Array
from delegatec.backends.mlx.operators.row import Constraint, operator_row
from delegatec.backends.mlx.operators.rules import FLOAT_OPERANDS, SAME_DTYPES
from delegatec.edge.arguments import bind, each
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.legalize.constraints import STATIC_SETTINGS

_LETTERS: Final = "DHW"


def _fields(spatial: int, **values: Sequence[int]) -> dict[str, int]:
    """Returns the fields of a convolution, which have a letter for each of several dimensions."""
    letters = [""] if spatial == 1 else _LETTERS[-spatial:]
    return {
        f"{name}{letter}": value
        for name, several in values.items()
        for letter, value in zip(letters, several, strict=True)
    }


def _with_bias(b: GraphBuilder, node: Node, name: str, **fields: Any) -> None:
    _with_bias_of(b, bind(node)["bias"], name, b.result(node), **fields)


def _with_bias_of(b: GraphBuilder, bias: Node | None, name: str, out: Array, **fields: Any) -> None:
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
        x = padded(b, x, [(0, 0), *amounts, (0, 0)])
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
    spatial = len(removed)
    fields = _fields(
        spatial,
        stride=bound["stride"],
        padding=[before for before, _ in removed],
        dilation=bound.get("dilation", [1] * spatial),
        outputPadding=[before - after for before, after in removed],
    )
    x, weight = b.of(bound["x"]), b.of(bound["weight"])
    groups = bound.get("groups", 1)
    _with_bias(b, node, f"ConvTranspose{spatial}d", x=x, w=weight, groups=groups, **fields)


def _transposed_of_any_form(b: GraphBuilder, node: Node) -> None:
    """Moves the channels to the end, and back, of what the channels-last operator does not compute."""
    bound = bind(node)
    inputs, outputs, *kernel = bound["weight"].meta["val"].shape
    spatial, groups = len(kernel), bound["groups"]
    names = ("stride", "padding", "dilation", "output_padding")
    stride, padding, dilation, added = (each(bound[name], spatial) for name in names)

    parts, order = (groups, inputs // groups, outputs, *kernel), [0, 2, *range(3, 3 + spatial), 1]
    shape = (groups * outputs, *kernel, inputs // groups)
    if b.constant_value(bound["weight"]) is None:
        weight = reshaped(b, transposed(b, reshaped(b, b.of(bound["weight"]), parts), order), shape)
    else:
        form = ("transposed", groups)
        weight = b.arranged(bound["weight"], form, lambda each: each.view(parts).permute(order), shape)
    last = [0, *range(2, spatial + 2), 1]
    x = transposed(b, b.of(bound["input"]), last)
    found = b.temporary([node.meta["val"].shape[dim] for dim in last], x.dtype)
    fields = _fields(spatial, stride=stride, padding=padding, dilation=dilation, outputPadding=added)
    _with_bias_of(b, bound["bias"], f"ConvTranspose{spatial}d", found, x=x, w=weight, groups=groups, **fields)
    b.alias(node, transposed(b, found, [0, spatial + 1, *range(1, spatial + 1)]))


def _of_other_form(node: Node, _: object) -> str | None:
    bound = bind(node)
    spatial = len(bound["weight"].meta["val"].shape) - 2
    if not bound["transposed"]:
        return "transposed is false"
    if bound["groups"] > 1:
        return f"{bound['groups']} groups of volumes" if spatial == 3 else None
    is_plain = spatial < 3 and set(each(bound["dilation"], spatial)) == {1}
    return "a dense convolution without dilation" if is_plain else None


def _removed(node: Node, _: object) -> str | None:
    bound = bind(node)
    kernel = bound["weight"].meta["val"].shape[2:]
    padding, dilation = (each(bound[name], len(kernel)) for name in ("padding", "dilation"))
    reach = [apart * (size - 1) for apart, size in zip(dilation, kernel, strict=True)]
    fits = all(amount <= most for amount, most in zip(padding, reach, strict=True))
    return None if fits else f"padding is {list(padding)} for a kernel of {list(kernel)}"


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
_REMOVED: Final = Constraint(
    "argument",
    "Elements are removed before the first ones, and less than a stride fewer after the last ones.",
    _uneven,
)
_PADDING: Final = Constraint("argument", "Padding is not negative.", _negative)

ROWS: Final = (
    *(
        operator_row(operator, _convolution, *_RULES, _PADDING, note="padded first if the sides differ")
        for operator in (NHWC.conv1d.default, NHWC.conv2d.default, NHWC.conv3d.default)
    ),
    operator_row(
        "convolution",
        _transposed_of_any_form,
        FLOAT_OPERANDS,
        SAME_DTYPES,
        STATIC_SETTINGS,
        Constraint(
            "argument",
            "Transposed, and in three dimensions, in groups of one or two, or with dilation: others are "
            "channels last.",
            _of_other_form,
        ),
        Constraint("argument", "Padding is less than the kernel: MLX fails on more.", _removed),
        note="between two transpositions",
        preserved=True,
    ),
    *(
        operator_row(operator, _transposed, *_RULES, _REMOVED)
        for operator in (NHWC.conv_transpose1d.default, NHWC.conv_transpose2d.default)
    ),
)
