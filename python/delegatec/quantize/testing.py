# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests: quantized modules, their graphs as text, and their error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.quantize.flow import QuantizedModel, quantize_model
from delegatec.quantize.inputs import Sample
from delegatec.quantize.settings import Settings


def quantized(
    module: nn.Module, inputs: tuple[Tensor, ...], settings: Settings, others: Sequence[Sample] = ()
) -> QuantizedModel:
    """Returns a quantized module, calibrated with its example inputs and other samples."""
    methods = export(Model(module.eval(), inputs))
    return quantize_model(methods, {"forward": [(inputs, {}), *others]}, settings)


def text(module: nn.Module, inputs: tuple[Tensor, ...], **settings: Any) -> str:
    """Returns the calls of a quantized module, one per line.

    A quantized value is `name:N`, where N is the index of its scale and zero point, or `name:channels`. A
    suffix such as i16 is their dtype, if it is not int8.
    """
    program = quantized(module, inputs, Settings(**settings)).methods["forward"]
    return "\n".join(_lines(program.graph))


def signal_to_noise(exact: Tensor, found: Tensor) -> float:
    """Returns the ratio of the powers of a signal and of its error in dB."""
    error = (exact - found).pow(2).sum().clamp_min(1e-30)
    return float(10 * torch.log10(exact.pow(2).sum() / error))


def _lines(graph: torch.fx.Graph) -> Iterator[str]:
    indices: dict[tuple[Any, ...], int] = {}
    shown: dict[torch.fx.Node, str] = {}
    for node in graph.nodes:
        name = str(node.target).removesuffix(".default").rpartition("::")[2]
        if "dequantize_per" in name:
            operand = node.args[0]
            if "channel" in name:
                shown[node] = f"{shown[operand]}:channels"
                continue
            shown[node] = shown[operand] + _quantization(node, indices)
        elif "quantize_per" in name:
            shown[node] = shown[node.args[0]]
        elif node.op == "placeholder":
            shown[node] = node.name.removeprefix("p_").removeprefix("b_").removesuffix("_levels")
        elif node.op == "call_function":
            shown[node] = node.name
            operands = ", ".join(shown[source] for source in node.all_input_nodes)
            users = [user for user in node.users if "quantize_per" in str(user.target)]
            result = _quantization(users[0], indices) if users else ""
            yield f"{node.name}{result} = {name.removeprefix('aten.')}({operands})"
        elif node.op == "output":
            yield f"return {', '.join(shown[source] for source in node.all_input_nodes)}"


def _quantization(call: torch.fx.Node, indices: dict[tuple[Any, ...], int]) -> str:
    """Returns the index of the parameters, and the dtype, of a call that quantizes or dequantizes."""
    dtype = str(call.args[-1]).removeprefix("torch.int")
    index = indices.setdefault(tuple(call.args[1:]), len(indices))
    return f":{index}" + f"i{dtype}" * (dtype != "8")
