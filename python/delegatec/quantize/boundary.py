# SPDX-License-Identifier: Apache-2.0
"""Quantized inputs and outputs of a program: the caller passes and receives levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.fx import GraphModule, Node

from delegatec.diagnostics import DelegatecError, Diagnostic

quantized = torch.ops.quantized_decomposed

_QUANTIZE: Final = quantized.quantize_per_tensor.default
_DEQUANTIZE: Final = quantized.dequantize_per_tensor.default


@dataclass(frozen=True)
class Levels:
    """How an input or output is quantized: value = (level - zero_point) * scale.

    Attributes:
        scale: the difference of two levels.
        zero_point: the level of 0.
        low: the lowest level.
        high: the highest level.
        dtype: of a level.
    """

    scale: float
    zero_point: int
    low: int
    high: int
    dtype: torch.dtype

    def of(self, values: torch.Tensor) -> torch.Tensor:
        """Returns the levels of values."""
        levels: torch.Tensor = _QUANTIZE(values, self.scale, self.zero_point, self.low, self.high, self.dtype)
        return levels

    def values(self, levels: torch.Tensor) -> torch.Tensor:
        """Returns the values of levels."""
        return (levels.to(torch.float32) - self.zero_point) * self.scale


def quantize_boundary(model: GraphModule, method: str) -> tuple[dict[str, Levels], dict[int, Levels]]:
    """Removes the first quantization of inputs and the last dequantization of outputs, in place.

    Args:
        model: a converted graph.
        method: its name, for messages.

    Returns:
        Input -> its levels, and position of an output -> its levels.

    Raises:
        DelegatecError: DC134, an input or output that an operator in float uses or computes.
    """
    inputs: dict[str, Levels] = {}
    outputs: dict[int, Levels] = {}
    problems: list[str] = []
    for node in list(model.graph.nodes):
        if node.op == "placeholder" and _is_float(node) and node.users:
            found = {_levels(user) if user.target is _QUANTIZE else None for user in node.users}
            levels = found.pop() if len(found) == 1 else None
            if levels is None:
                problems.append(f'input "{node.name}" of {method} is used in float')
                continue
            inputs[str(node.target)] = levels  # a node is not named as a builtin such as `input`
            for user in list(node.users):
                user.replace_all_uses_with(node)
                model.graph.erase_node(user)
            node.meta["val"] = levels.of(node.meta["val"])
        elif node.op == "output":
            leaves = list(node.all_input_nodes)
            for position, source in enumerate(_results(node)):
                if not isinstance(source, Node) or not _is_float_result(source):
                    continue
                if source.target is not _DEQUANTIZE:
                    problems.append(f"output {position} of {method} is computed in float")
                    continue
                outputs[position] = _levels(source)
            for source in leaves:
                if source.target is _DEQUANTIZE:
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


def _levels(node: Node) -> Levels:
    _, scale, zero_point, low, high, dtype = node.args
    return Levels(scale, zero_point, low, high, dtype)  # type: ignore[arg-type]


def _is_float(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _is_float_result(node: Node) -> bool:
    return node.target is _DEQUANTIZE or _is_float(node)
