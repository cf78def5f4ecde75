# SPDX-License-Identifier: Apache-2.0
"""Convolutions: of one image, channels packed."""

from __future__ import annotations

from typing import Final

from torch.fx import Node

from delegatec.backends.vulkan.building.graph_builder import GraphBuilder
from delegatec.backends.vulkan.dtypes import FLOATS
from delegatec.backends.vulkan.memory.demands import first_operand
from delegatec.backends.vulkan.memory.representation import CHANNELS
from delegatec.backends.vulkan.memory.sizes import shape_of
from delegatec.backends.vulkan.operators.clamps import finite_bounds, fused_clamp
from delegatec.backends.vulkan.operators.row import (
    Constraint,
    OperatorRow,
    constants,
    operator_row,
    resizing,
)
from delegatec.edge.arguments import bind, each
from delegatec.edge.legalize.constraints import STATIC_SETTINGS, rank_of, same_dtypes
from delegatec.edge.symbols import is_dynamic

_TEXEL: Final = 4
_DEPTHWISE: Final = frozenset({(3, 3), (5, 5)})


def _convolution(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    count = len(shape_of(bound["input"])) - 2
    operands = [b.argument(bound[name]) for name in ("input", "weight", "bias")]
    windows = [b.integers(each(bound[name], count)) for name in ("stride", "padding", "dilation")]
    padding = b.integers(each(bound["output_padding"], count))
    flags = (b.scalar(bool(bound["transposed"])), padding, b.scalar(bound["groups"]))
    clamp = fused_clamp(node)
    if clamp is None:
        b.call("aten.convolution.default", *operands, *windows, *flags, b.result(node))
    else:
        bounds = finite_bounds(b, clamp)
        b.call("et_vk.conv_with_clamp.default", *operands, *windows, *flags, *bounds, b.result(clamp))
        b.also_computes(clamp)


def _batch(node: Node, _: object) -> str | None:
    shape = shape_of(bind(node)["input"])
    return f"a batch of {shape[0]}" if len(shape) == 4 and shape[0] > 1 else None


def _transposed(node: Node, _: object) -> str | None:
    bound = bind(node)
    if not bound["transposed"]:
        return None
    if len(shape_of(bound["input"])) != 4:
        return "transposed, over a sequence"
    if set(bound["dilation"]) != {1}:
        return f"transposed, with dilation {list(bound['dilation'])}"
    return f"transposed, in {bound['groups']} groups" if bound["groups"] != 1 else None


def _groups(node: Node, _: object) -> str | None:
    bound = bind(node)
    outputs, inputs = shape_of(bound["weight"])[:2]
    groups = bound["groups"]
    if bound["transposed"] or len(shape_of(bound["input"])) == 3:
        return None
    if outputs == groups and inputs == 1:  # also a single channel: the runtime compares these sizes
        size = tuple(shape_of(bound["weight"])[2:])
        return None if size in _DEPTHWISE else f"a depthwise kernel of {size[0]} x {size[1]}"
    if groups == 1:
        return None
    if set(shape_of(bound["weight"])[2:]) == {1}:
        return f"a kernel of 1 x 1 with {groups} groups"
    if inputs % _TEXEL == 0 and outputs // groups % _TEXEL == 0:
        return None
    return f"{groups} groups of {inputs} to {outputs // groups} channels"


def _padded_sequence(node: Node) -> str | None:
    bound = bind(node)
    length = bound["input"].meta["val"].shape[2:]
    return (
        f"padding of {bound['padding']}"
        if len(length) == 1 and is_dynamic(length) and any(bound["padding"])
        else None
    )


_UNPADDED: Final = resizing(
    "A sequence of dynamic length is not padded: the shader reads past its end.",
    _padded_sequence,
)

ROWS: Final[tuple[OperatorRow, ...]] = (
    operator_row(
        "convolution",
        first_operand(CHANNELS),
        FLOATS,
        STATIC_SETTINGS,
        same_dtypes("the runtime does not promote."),
        rank_of("input", (3, 4), "the runtime convolves images and sequences."),
        Constraint("batch", "The batch size is 1: the shaders ignore further images.", _batch),
        Constraint(
            "argument",
            "Transposed convolutions are 2-d, without dilation or groups: the runtime has no others.",
            _transposed,
        ),
        Constraint(
            "argument",
            "Grouped convolutions are depthwise with kernels of 3 x 3 or 5 x 5, or have a multiple of four "
            "channels per group and no 1 x 1 kernel: other shaders are wrong or missing.",
            _groups,
        ),
        lower=_convolution,
        resizes=(_UNPADDED,),
        known=(constants("weight", "bias"),),
    ),
)
