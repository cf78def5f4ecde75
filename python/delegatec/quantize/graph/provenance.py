# SPDX-License-Identifier: Apache-2.0
"""Modules and lines of the calls that quantize: those of the operator that they belong to."""

from __future__ import annotations

from typing import Final

from torch.fx import GraphModule, Node

from delegatec.edge.quantization.operators import DEQUANTIZING, QUANTIZING

_KEYS: Final = ("stack_trace", "nn_module_stack")


def port_metadata(model: GraphModule) -> None:
    """Copies metadata to a dequantization from its user, and to a quantization from its operand, in place."""
    for node in reversed(model.graph.nodes):
        if node.target in DEQUANTIZING or (node.target in QUANTIZING and node.args[0].op == "placeholder"):
            _copy(next(iter(node.users)), node)
    for node in model.graph.nodes:
        is_last = node.target in DEQUANTIZING and next(iter(node.users)).op == "output"
        if is_last or (node.target in QUANTIZING and node.args[0].op != "placeholder"):
            _copy(node.args[0], node)


def _copy(source: Node, node: Node) -> None:
    for key in _KEYS:
        if key in source.meta:
            node.meta[key] = source.meta[key]
