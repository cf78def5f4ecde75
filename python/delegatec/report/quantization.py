# SPDX-License-Identifier: Apache-2.0
"""The quantized values of an exported program: dtypes, scales and zero points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from delegatec.edge.arguments import short_name
from delegatec.edge.quantization.operators import DEQUANTIZING, QUANTIZATIONS, operands_of
from delegatec.edge.source import location_of
from delegatec.report.methods import Location, QuantizedValue


def quantized_values(exported: ExportedProgram) -> tuple[QuantizedValue, ...]:
    """Returns the quantized weights and activations of a program, in execution order, each once.

    Args:
        exported: the program, before it is lowered. Constants with scales are read.
    """
    signature = exported.graph_signature
    weights = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    constants = {
        node: exported.state_dict.get(name, exported.constants.get(name)) for node, name in weights.items()
    }
    found: dict[str, QuantizedValue] = {}
    for node in exported.graph.nodes:
        for value in _of_node(node, weights, constants):
            found.setdefault(value.name, value)
    return tuple(found.values())


def _of_node(
    node: Node, weights: Mapping[str, str], constants: Mapping[str, object]
) -> Iterator[QuantizedValue]:
    """Yields the value that a node quantizes, or the weight that it dequantizes."""
    if node.target not in QUANTIZATIONS:
        return
    operands = operands_of(node)
    weight = weights.get(operands.x.name)
    if node.target in DEQUANTIZING and weight is None:
        return  # of an activation, which another node has quantized
    scales, zeros = (_stored(constants, each) for each in (operands.scale, operands.zero_point))
    yield QuantizedValue(
        name=weight or operands.x.name,
        kind="weight" if weight else "activation",
        dtype=short_name(operands.dtype),
        scales=_range(scales),
        zero_points=tuple(int(each) for each in _range(zeros)),
        groups=scales.numel() if scales is not None else 0,
        location=_line(node),
    )


def _line(node: Node) -> Location | None:
    found = location_of(node.meta.get("stack_trace"))
    return Location(found.file, found.line, found.function, found.text) if found else None


def _stored(constants: Mapping[str, object], value: Any) -> torch.Tensor | None:
    """Returns the values of an argument; None if the program computes them."""
    if isinstance(value, Node):
        stored = constants.get(value.name)
        return stored.detach() if isinstance(stored, torch.Tensor) else None
    return torch.tensor(float(value or 0), dtype=torch.float64)


def _range(elements: torch.Tensor | None) -> tuple[float, ...]:
    """Returns the least and the largest of finite values; nothing if there are none."""
    if elements is None:
        return ()
    finite = elements.double()  # torch has no extrema of float8
    finite = finite[finite.isfinite()]
    return tuple(map(float, finite.aminmax())) if finite.numel() else ()
