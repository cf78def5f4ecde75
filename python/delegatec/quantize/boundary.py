# SPDX-License-Identifier: Apache-2.0
"""Quantized inputs and outputs of a program: the caller passes and receives integers."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch.fx import GraphModule, Node

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE
from delegatec.edge.quantization.scale import Quantization


def quantize(values: torch.Tensor, to: Quantization) -> torch.Tensor:
    """Returns quantized values, as eager mode computes them."""
    found: torch.Tensor = QUANTIZE(values, *to.arguments)
    return found


def quantize_boundary(
    model: GraphModule, method: str
) -> tuple[dict[str, Quantization], dict[int, Quantization]]:
    """Removes the first quantization of inputs and the last dequantization of outputs, in place.

    Args:
        model: a converted graph.
        method: its name, for messages.

    Returns:
        Input -> its quantization, and position of an output -> that of the output.

    Raises:
        DelegatecError: DC134, an input or output that an operator in float uses or computes.
    """
    inputs: dict[str, Quantization] = {}
    outputs: dict[int, Quantization] = {}
    problems: list[str] = []
    for node in list(model.graph.nodes):
        if node.op == "placeholder" and _is_float(node) and node.users:
            found = {call_quantization(user) if user.target is QUANTIZE else None for user in node.users}
            to = found.pop() if len(found) == 1 else None
            if to is None:
                problems.append(f'input "{node.name}" of {method} is used in float')
                continue
            inputs[str(node.target)] = to  # a node is not named as a builtin such as `input`
            for user in list(node.users):
                user.replace_all_uses_with(node)
                model.graph.erase_node(user)
            node.meta["val"] = quantize(node.meta["val"], to)
        elif node.op == "output":
            leaves = list(node.all_input_nodes)
            for position, source in enumerate(_results(node)):
                if not isinstance(source, Node) or not _is_float_result(source):
                    continue
                if source.target is not DEQUANTIZE:
                    problems.append(f"output {position} of {method} is computed in float")
                    continue
                outputs[position] = call_quantization(source)
            for source in leaves:
                if source.target is DEQUANTIZE:
                    node.replace_input_with(source, source.args[0])
    if problems:
        raise DelegatecError(
            [
                Diagnostic(
                    "DC134",
                    f"quantize_io: {text}",
                    expected="a quantized operator at the input or output",
                    help="omit quantize_io, or quantize this operator",
                )
                for text in problems
            ]
        )
    model.graph.eliminate_dead_code()
    model.recompile()
    return inputs, outputs


def _results(output: Node) -> list[Any]:
    return torch.utils._pytree.tree_leaves(output.args[0])


def call_quantization(node: Node) -> Quantization:
    """Returns the parameters of a call of `QUANTIZE` or `DEQUANTIZE`."""
    scale, zero_point, low, high, dtype = cast(Any, node.args[1:])
    return Quantization(dtype, (scale,), zero_point, low, high)


def _is_float(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _is_float_result(node: Node) -> bool:
    return node.target is DEQUANTIZE or _is_float(node)
