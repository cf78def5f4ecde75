# SPDX-License-Identifier: Apache-2.0
"""Fills, conversions and copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.vulkan.building.graph_builder import GraphBuilder, is_narrowed_input
from delegatec.backends.vulkan.dtypes import ALL, FLOATS, NUMERIC, stored
from delegatec.backends.vulkan.memory.assign import REPRESENTATION
from delegatec.backends.vulkan.memory.demands import Group, IsConstant, tied
from delegatec.backends.vulkan.memory.representation import ANY, BUFFER
from delegatec.backends.vulkan.memory.sharing import PREPACK
from delegatec.backends.vulkan.memory.sizes import has_dynamic_size
from delegatec.backends.vulkan.operators.row import (
    KNOWN_SCALARS,
    SHAPED,
    Constraint,
    OperatorRow,
    operator_row,
)
from delegatec.edge.arguments import bind, dtype_of, short_name
from delegatec.edge.legalize.constraints import rank_at_most, result_dtypes

# The dtypes that the shaders convert, besides floats.
_CONVERSIONS: Final = frozenset(
    {
        (torch.int32, torch.float32),
        (torch.int32, torch.float16),
        (torch.bool, torch.float32),
        (torch.bool, torch.float16),
        (torch.bool, torch.int32),
        (torch.float32, torch.int32),
        (torch.float16, torch.int32),
    }
)
_LARGEST: Final = 2**24


def _types(node: Node) -> tuple[torch.dtype, torch.dtype]:
    return stored(dtype_of(bind(node)["self"])), stored(dtype_of(node))


def _convert_memory(node: Node, is_constant: IsConstant) -> Sequence[Group]:
    source, result = _types(node)
    if is_narrowed_input(node) and not is_constant(bind(node)["self"]):
        return (Group(ANY, (), (0,)),)
    floats = {source, result} <= FLOATS
    is_anywhere = source == result or floats or (source == torch.bool and result in FLOATS)
    # the runtime does not resize the copy of a texture
    is_resized = source == result or not (floats and has_dynamic_size(node))
    return (Group(ANY if is_anywhere and is_resized else BUFFER, (bind(node)["self"],), (0,)),)


def _unknown_conversion(node: Node, _: object) -> str | None:
    source, result = _types(node)
    if source == result or {source, result} <= FLOATS or (source, result) in _CONVERSIONS:
        return None
    return f"from {short_name(source)} to {short_name(result)}"


def _convert(b: GraphBuilder, node: Node) -> None:
    """Casts of inputs and outputs are part of the copies from and to the caller's memory."""
    source = bind(node)["self"]
    first, second = _types(node)
    is_copied = is_narrowed_input(node) and not b.is_constant(source)
    if first == second or is_copied or b.widens_in_copy(source, node):
        b.alias(node, b.of(source))
    elif node.meta[REPRESENTATION].is_texture and first == torch.bool:
        one, zero = (b.packed(scalar, second, node.meta[REPRESENTATION]) for scalar in (1.0, 0.0))
        b.call("aten.where.self", b.of(source), one, zero, b.result(node))
    elif node.meta[REPRESENTATION].is_texture:
        b.call("aten._to_copy.default", b.of(source), *[b.null()] * 6, b.result(node))
    else:
        # to_copy has no buffers
        b.call("dim_order_ops._to_dim_order_copy.default", b.of(source), *[b.null()] * 6, b.result(node))


def _clone(b: GraphBuilder, node: Node) -> None:
    """Copies a tensor to another representation, and constants to the device before the first run."""
    source = bind(node)["self"]
    if b.is_constant(source):
        constant, packed = b.of(source), b.result(node)
        b.call(PREPACK, constant, packed)
        b.names[packed] = b.names[constant]
    else:
        b.call("aten.clone.default", b.of(source), b.null(), b.result(node))


def _full(b: GraphBuilder, node: Node) -> None:
    value = bind(node)["fill_value"]
    sizes = b.sizes(node.meta["val"].shape)
    b.call("aten.full.default", sizes, b.fill(value, dtype_of(node)), b.result(node))


def _arange(b: GraphBuilder, node: Node) -> None:
    """Counts from zero: the runtime reads the start and the step when it builds the graph."""
    args = [b.scalar(0), b.size(node.meta["val"].shape[0]), b.scalar(1), *[b.null()] * 4]
    b.call("aten.arange.start_step", *args, b.result(node))


def _other_start(node: Node, _: object) -> str | None:
    bound = bind(node)
    start, step = bound["start"], bound["step"]
    return None if (start, step) == (0, 1) else f"start {start}, step {step}"


def _large_fill(node: Node, _: object) -> str | None:
    value = bind(node)["fill_value"]
    if dtype_of(node) in FLOATS or abs(value) <= _LARGEST:
        return None
    return f"the integer {value}"


ROWS: Final[tuple[OperatorRow, ...]] = (
    operator_row(
        "_to_copy",
        _convert_memory,
        ALL,
        rank_at_most(4, "the shaders have four dimensions."),
        Constraint("dtype", "The runtime has a shader for the conversion.", _unknown_conversion),
        lower=_convert,
        computes=False,
        resizes=(),
    ),
    operator_row(
        "clone", lambda node, _: (Group(ANY, (), (0,)),), ALL, lower=_clone, computes=False, resizes=()
    ),
    operator_row(
        "full",
        tied(),
        ALL,
        rank_at_most(4, "the shaders have four dimensions."),
        KNOWN_SCALARS,
        Constraint(
            "argument",
            "An integer fill_value is at most 2^24: the runtime stores it as float32.",
            _large_fill,
        ),
        lower=_full,
        computes=False,
        resizes=(SHAPED,),
    ),
    operator_row(
        "arange.start_step",
        tied(),
        NUMERIC,
        Constraint(
            "argument", "start is 0 and step is 1: other ranges are computed from this one.", _other_start
        ),
        result_dtypes(NUMERIC, "the runtime has shaders for these."),
        lower=_arange,
        computes=False,
        resizes=(SHAPED,),
    ),
)
