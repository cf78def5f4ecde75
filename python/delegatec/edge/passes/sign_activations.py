# SPDX-License-Identifier: Apache-2.0
"""Replaces activations of uint8 inside of a program by int8."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.constant import SHIFT
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE
from delegatec.edge.quantization.scale import Quantization


def sign_activations(program: EdgeProgram, allows: Callable[[Node], bool]) -> bool:
    """Replaces uint8 that is only dequantized by int8 of the full range, which is less by 128.

    Args:
        program: edited in place.
        allows: whether a call that quantizes or dequantizes uint8 may be replaced.

    Returns:
        Whether it changed.
    """
    builder, changed = Builder(program), False
    for node in program.graph.find_nodes(op="call_function", target=QUANTIZE):
        calls = (node, *node.users)
        is_only_dequantized = all(user.target is DEQUANTIZE for user in node.users)
        if not is_only_dequantized or not all(_is_uint8(each) and allows(each) for each in calls):
            continue
        for each in calls:
            bound = bind(each)
            zero_point = bound["zero_point"] - SHIFT
            signed = Quantization.full_range(torch.int8, bound["scale"], zero_point=zero_point)
            each.args = (bound["input"], *signed.arguments)
        node.meta["val"] = builder.empty(shape_of(node), torch.int8)
        changed = True
    return changed


def _is_uint8(node: Node) -> bool:
    return bool(bind(node)["dtype"] == torch.uint8)
