# SPDX-License-Identifier: Apache-2.0
"""Rewrites of calls with a size for which a device computes wrong results, to calls of other sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.vulkan.devices.profile import Device
from delegatec.backends.vulkan.operators.faulty_sizes import (
    ATTENTION,
    CONVOLUTIONS,
    LAYERS,
    PRODUCTS,
    fault_of,
    size_of,
)
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite, Rewrites, rewrites
from delegatec.edge.legalize.value import Value, value_of
from delegatec.edge.symbols import largest, smallest_nonempty

aten = torch.ops.aten

AVOIDED: Final = "avoided_fault"
"""Metadata of a call that replaces one with a faulty size: how, and why."""

_TEXEL: Final = 4
_MOST_PARTS: Final = 64
_CHANNELS: Final = ("weight", "sums", "scales", "bias")
"""Operands of a convolution that have a first dimension of output channels."""


def avoiding(device: Device) -> Rewrites:
    """Returns the rewrites of calls that a device computes wrongly."""
    rules: list[tuple[Any, Callable[[Device, Builder, Node], Node | None]]] = [
        *((target, _with_more_channels) for target in CONVOLUTIONS),
        *((target, _in_parts) for target in (*PRODUCTS, ATTENTION)),
    ]
    return rewrites(
        Rewrite(target, partial(rule, device), note="avoids a fault of the device") for target, rule in rules
    )


def parts_of(name: str, size: Any, device: Device) -> list[tuple[int, Any]] | None:
    """Returns the first and last row of each part into which rows are divided; None if that is impossible.

    Only the last part of a dynamic number of rows has a dynamic size.

    Args:
        name: of the size, as in `profile.SIZES`.
        size: the number of rows.
        device: computes some numbers of rows wrongly.
    """
    most, least = largest(size), smallest_nonempty(size)
    assert most is not None
    for count in range(2, _MOST_PARTS + 1):
        rows = -(-most // (count * _TEXEL)) * _TEXEL
        first = rows * (-(-most // rows) - 1)
        if least <= first:  # some run has no last part
            if isinstance(size, int):
                continue
            return None
        if device.fault(name, rows, rows) or device.fault(name, least - first, most - first):
            continue
        return [*((begin, begin + rows) for begin in range(0, first, rows)), (first, size)]
    return None


def more_channels(name: str, count: int, device: Device) -> int | None:
    """Returns the least larger number of channels that a device computes correctly; None if there is none.

    Args:
        name: of the size, as in `profile.SIZES`.
        count: of channels.
        device: computes some numbers of channels wrongly.
    """
    while (broken := device.fault(name, count, count)) is not None:
        if broken.last is None:
            return None
        count = -(-(broken.last + 1) // _TEXEL) * _TEXEL
    return count


def _in_parts(device: Device, builder: Builder, node: Node) -> Node | None:
    """Computes the rows of a result in parts."""
    fault, found = fault_of(node, device), size_of(node)
    parts = None if fault is None or found is None else parts_of(*found, device)
    if fault is None or parts is None:
        return None
    bound = bind(node)
    if bound.get("is_causal"):
        return None  # a part would begin with the first key; other rules make a mask of it, which has parts
    source = next(name for name in ("query", "x", "input", "mat1", "self") if name in bound)
    others = [name for name in ("attn_mask", "self") if name != source and bound.get(name) is not None]
    shape = node.meta["val"].shape
    rows = value_of(builder, bound[source])
    joined = list(shape)
    if node.target in LAYERS and (len(shape) < 2 or math.prod(shape[:-2]) != 1):
        joined = [math.prod(shape[:-1]), shape[-1]]
        rows = rows.view(joined[0], rows.shape[-1])
    dim = len(joined) - 2
    note = f"computes {_text(parts[-1][1])} rows in {len(parts)} parts: with that many, {fault.effect}"
    made = []
    for begin, end in parts:
        taken = {**bound, source: rows.slice(dim, begin, end).node}
        for name in filter(lambda each: _has_rows(bound[each]), others):
            value = value_of(builder, bound[name])
            taken[name] = value.slice(value.rank - 2, begin, end).node
        sizes = [*joined[:dim], end - begin, joined[-1]]
        made.append(_marked(_called(builder, node, taken, sizes), device, note))
    result = builder.call(aten.cat.default, made, dim, val=builder.empty(joined, dtype_of(node)))
    return result if len(joined) == len(shape) else Value(builder, result).view(*shape).node


def _has_rows(node: Node) -> bool:
    """Whether an operand has a row for each row of the result, and not the same for all."""
    rows = node.meta["val"].shape[-2:-1]
    return bool(rows) and not (isinstance(rows[0], int) and rows[0] == 1)


def _with_more_channels(device: Device, builder: Builder, node: Node) -> Node | None:
    """Computes further channels, of zeros, and drops them."""
    fault, found = fault_of(node, device), size_of(node)
    wanted = None if fault is None or found is None else more_channels(*found, device)
    if fault is None or found is None or wanted is None:
        return None
    count, bound = found[1], bind(node)
    wide = dict(bound)
    for operand in _CHANNELS:
        if bound.get(operand) is None:
            continue
        value = builder.facts.constant(bound[operand])
        if value is None:
            return None
        rows = value.detach()[:count]  # the operands of int8 layers are padded to whole texels
        zeros = rows.new_zeros(wanted - count, *rows.shape[1:])
        wide[operand] = builder.derived(bound[operand], torch.cat([rows, zeros]))
    batch, _, *image = node.meta["val"].shape
    note = f"computes {wanted} output channels instead of {count}: with {count}, {fault.effect}"
    result = _marked(_called(builder, node, wide, [batch, wanted, *image]), device, note)
    return Value(builder, result).slice(1, 0, count).node


def _called(builder: Builder, node: Node, bound: dict[str, Any], shape: Sequence[Any]) -> Node:
    """Creates a call of a node's operator with other arguments, and a result of a shape."""
    schema = node.target._schema.arguments  # type: ignore[union-attr]
    keywords = {each.name: bound[each.name] for each in schema if each.kwarg_only}
    operands = [value for name, value in bound.items() if name not in keywords]
    return builder.call(node.target, *operands, val=builder.empty(shape, dtype_of(node)), **keywords)


def _marked(node: Node, device: Device, note: str) -> Node:
    node.meta[AVOIDED] = f"for {device.name}, {note}"
    return node


def _text(size: Any) -> str:
    return str(size) if isinstance(size, int) else f"up to {largest(size)}"
