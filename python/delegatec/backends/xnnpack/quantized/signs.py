# SPDX-License-Identifier: Apache-2.0
"""uint8 levels inside of a delegate become int8: weights have a scale for each channel in int8 only."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.quantized.scales import DEQUANTIZE, LEAST, MOST, QUANTIZE, scale_of
from delegatec.edge.arguments import bind
from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram

_POSITIONAL: Final = ("input", "scale", "zero_point", "quant_min", "quant_max", "dtype")


def sign_levels(program: EdgeProgram) -> bool:
    """Replaces uint8 that is only dequantized by int8: levels and zero points are less by 128.

    Args:
        program: edited in place.

    Returns:
        Whether it changed.
    """
    builder = Builder(program)
    changed = False
    for node in program.graph.find_nodes(op="call_function", target=QUANTIZE):
        if bind(node)["dtype"] != torch.uint8 or scale_of(node) is None:
            continue
        if not all(_dequantizes(user) for user in node.users):
            continue
        for each in (node, *node.users):
            _sign(each)
        node.meta["val"] = builder.empty(node.meta["val"].shape, torch.int8)
        changed = True
    return changed


def _dequantizes(node: Node) -> bool:
    return node.target is DEQUANTIZE and bind(node)["dtype"] == torch.uint8 and scale_of(node) is not None


def _sign(node: Node) -> None:
    scale = scale_of(node)
    assert scale is not None
    signed = {"zero_point": scale.zero, "quant_min": LEAST, "quant_max": MOST, "dtype": torch.int8}
    bound = bind(node) | signed
    node.args = tuple(bound[name] for name in _POSITIONAL)
