# SPDX-License-Identifier: Apache-2.0
"""Quantized weights of less than eight bits, stored in as many bits and unpacked by kernels in each run.

Values of four, two or one bits share a byte; other sizes are sums of these. For a million weights of four
bits, the file is half a megabyte smaller and a run takes 0.29 ms longer, next to 0.32 ms for dequantization
and a product with one row (1.1 ms with 32 rows; x86-64, one thread). Three bits take 1 ms. The arena does not
grow: it contains the weight in float32 later.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

# Bits -> widths of the parts of a value, from its low bits.
_PARTS: Final = {1: (1,), 2: (2,), 3: (2, 1), 4: (4,), 5: (4, 1), 6: (4, 2)}
# Bytes of an instruction and its values in a file.
_INSTRUCTION: Final = 256


def pack_weights(program: EdgeProgram) -> None:
    """Packs int8 and uint8 constants that are converted to floating point, or gathered by rows.

    Args:
        program: edited in place, with the bodies of its control flow.
    """
    for each in program.walk():
        constants = each.fixed_constants()
        candidates = [
            node
            for node in each.graph.find_nodes(op="placeholder")
            if node.name in constants and constants[node.name].dtype in (torch.int8, torch.uint8)
        ]
        if not candidates:
            continue
        builder = Builder(each)
        users: dict[int, list[Node]] = {}
        for node in candidates:
            users.setdefault(constants[node.name].data_ptr(), []).extend(node.users)
        for node in candidates:
            tensor = constants[node.name]
            _pack(builder, node, tensor, users[tensor.data_ptr()])
        each.erase_unused_placeholders()


def _pack(builder: Builder, node: Node, tensor: Tensor, readers: list[Node]) -> None:
    """Packs a constant.

    Args:
        builder: the builder.
        node: the constant.
        tensor: its values.
        readers: the users of all constants with the same memory, which share the packed values, too.
    """
    users = list(node.users)
    if not users or not all(_gathers(user) or _is_converted(user) for user in users):
        return
    if tensor.dtype is torch.uint8 and not all(map(_is_converted, users)):
        return
    low, high = (int(each) for each in tensor.aminmax()) if tensor.numel() else (0, 0)
    bits = max(1, (high - low).bit_length())
    parts = _PARTS.get(bits)
    if parts is None or high > torch.iinfo(torch.int8).max or tensor.numel() * (8 - bits) // 8 < _cost(parts):
        return
    half = 1 << (bits - 1)
    middle = 0 if -half <= low and high < half else low + half
    rest = tensor.view(torch.uint8) - (middle - half) % 256
    if parts == (4,) and tensor.shape[-1] % 2 == 0 and all(map(_gathers, readers)):
        pairs = builder.derived(node, _pairs_of(rest), torch.int8)
        for user in users:
            builder.at(user)
            gathered = builder.call(user.target, pairs, *user.args[1:])
            _replace(builder, user, _unpacked_pairs(builder, gathered, middle))
        return
    packed: list[tuple[Node, int]] = []
    dim = _dim(tensor, 8 // min(parts), by_row=any(map(_gathers, readers)))
    if dim is None:
        return
    for width in parts:
        packed.append(
            (builder.derived(node, _packed(rest & ((1 << width) - 1), width, dim), torch.int8), width)
        )
        rest >>= width
    for user in users:
        builder.at(user)
        rows = packed
        if _gathers(user):
            rows = [(builder.call(user.target, part, *user.args[1:]), width) for part, width in packed]
        values = _unpacked(builder, rows, dim, middle)
        if _gathers(user):
            _replace(builder, user, values)
        else:
            user.replace_input_with(node, values)
            _signed(user)


def _replace(builder: Builder, node: Node, value: Node) -> None:
    node.replace_all_uses_with(value)
    builder.program.graph.erase_node(node)


def _cost(parts: tuple[int, ...]) -> int:
    """Returns the size of the instructions that unpack a weight."""
    return _INSTRUCTION * (sum(3 * (8 // width) for width in parts) - 2)


def _gathers(user: Node) -> bool:
    return user.target is aten.index_select.default and user.args[1] in (0,)


def _is_converted(user: Node) -> bool:
    """Whether values are only converted to floating point, maybe in another shape."""
    if user.target is aten.view.default:
        return all(map(_is_converted, user.users))
    return user.target is aten._to_copy.default and user.meta["val"].is_floating_point()


def _signed(user: Node) -> None:
    """Makes views of uint8 views of int8."""
    if user.target is aten.view.default:
        user.meta["val"] = user.meta["val"].to(torch.int8)
        for each in user.users:
            _signed(each)


def _dim(tensor: Tensor, count: int, by_row: bool) -> int | None:
    """Returns the dimension whose parts share bytes: the first, with the longest parts, if divisible."""
    dims = (dim for dim, size in enumerate(tensor.shape) if size % count == 0 and (dim or not by_row))
    return next(dims, None)


def _pairs_of(values: Tensor) -> Tensor:
    """Returns uint8 values of four bits as bytes, the first of two neighbors in the low bits.

    XNNPACK's weights have this form: a table that is also the weight of a layer is in the file once.
    """
    return (values[..., ::2] | (values[..., 1::2] << 4)).view(torch.int8)


def _unpacked_pairs(builder: Builder, rows: Node, middle: int) -> Node:
    """Returns the values of pairs in int8."""
    high = builder.call(aten.bitwise_right_shift.Tensor_Scalar, rows, 4)
    low = builder.call(aten.add.Tensor, rows, high, alpha=-16)
    # the kernel shifts signed values
    halves = [low, builder.call(aten.bitwise_and.Scalar, high, 15)]
    *sizes, width = shape_of(rows)
    columns = [builder.call(aten.view.default, half, [*sizes, width, 1]) for half in halves]
    pairs = builder.call(aten.cat.default, columns, len(sizes) + 1)
    values = builder.call(aten.view.default, pairs, [*sizes, 2 * width])
    return builder.call(aten.sub.Scalar, values, 8 - middle)


def _packed(unpacked: Tensor, width: int, dim: int) -> Tensor:
    """Returns several values per byte; those of the last part, in the high bits, as a signed value."""
    *others, last = unpacked.chunk(8 // width, dim)
    total = (last ^ (1 << (width - 1))) << (8 - width)
    for index, part in enumerate(others):
        total |= part << (width * index)
    return total.view(torch.int8)


def _unpacked(builder: Builder, packed: list[tuple[Node, int]], dim: int, middle: int) -> Node:
    """Returns the values in int8."""
    total: Any = None
    shift = 0
    for part, width in packed:
        unpacked = _unpacked_part(builder, part, width, dim)
        total = (
            unpacked if total is None else builder.call(aten.add.Tensor, total, unpacked, alpha=1 << shift)
        )
        if shift + width < sum(each for _, each in packed):
            middle += 1 << (shift + width - 1)
        shift += width
    return builder.call(aten.add.Scalar, total, middle) if middle else total


def _unpacked_part(builder: Builder, packed: Node, width: int, dim: int) -> Node:
    parts: list[Node] = []
    for shift in range(8 - width, 0, -width):
        high = builder.call(aten.bitwise_right_shift.Tensor_Scalar, packed, shift)
        packed = builder.call(aten.add.Tensor, packed, high, alpha=-(1 << shift))
        parts.append(high)
    parts.append(packed)
    half = 1 << (width - 1)
    signed = [parts[0], *(builder.call(aten.sub.Scalar, part, half) for part in parts[1:])]
    return builder.call(aten.cat.default, signed[::-1], dim)
