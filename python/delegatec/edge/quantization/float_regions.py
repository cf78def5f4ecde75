# SPDX-License-Identifier: Apache-2.0
"""Calls that compute in floating point between int8 values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node

from delegatec.diagnostics.notes import Note
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE

Region = list[Node]


def float_regions(
    nodes: Sequence[Node], is_source: Callable[[Node], bool], is_sink: Callable[[Node], bool]
) -> list[Region]:
    """Returns the connected groups of calls on a path from an int8 value to another.

    Args:
        nodes: of a program, in order.
        is_source: whether a call makes floats of an int8 value that a layer computed.
        is_sink: whether a call makes an int8 value, which a layer reads, of floats.
    """
    if not any(map(is_sink, nodes)):
        return []
    after: set[Node] = set()
    for node in nodes:
        if _computes(node) and any(each in after or is_source(each) for each in node.all_input_nodes):
            after.add(node)
    before: set[Node] = set()
    for node in reversed(nodes):
        if node in after and any(user in before or is_sink(user) for user in node.users):
            before.add(node)
    region_of: dict[Node, Region] = {}
    for node in nodes:
        if node not in before:
            continue
        operands = [each for each in node.all_input_nodes if each in region_of]
        region = region_of[operands[0]] if operands else []
        for each in operands:
            other = region_of[each]
            if other is not region:
                region += other
                region_of.update(dict.fromkeys(other, region))
        region.append(node)
        region_of[node] = region
    return list({id(region): region for region in region_of.values()}.values())


def note_on_region(region: Region, where: str, help: str) -> Note:
    """Returns the note on a group of calls.

    Args:
        region: the calls.
        where: they run, such as "on the CPU".
        help: what to do.
    """
    names = sorted({str(node.target).removesuffix(".default") for node in region})
    count = f" ({len(region)} calls)" if len(region) > 1 else ""
    message = f"{', '.join(names)}{count} between two int8 layers: in floating point {where}"
    location = next((node.meta["source"] for node in region if node.meta.get("source")), None)
    return Note("float-activation", message, help, location)


def _computes(node: Node) -> bool:
    """Whether a call computes floats."""
    value: Any = node.meta.get("val")
    if node.op != "call_function" or node.target in (QUANTIZE, DEQUANTIZE):
        return False
    return isinstance(value, torch.Tensor) and value.dtype.is_floating_point
