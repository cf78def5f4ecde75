# SPDX-License-Identifier: Apache-2.0
"""The contents of a `.pt2`: signatures and operators of the methods of an exported model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from delegatec.report.methods import OperatorCount
from delegatec.report.sizes import human_bytes
from delegatec.samples.accuracy import OutputAccuracy, accuracy_text
from delegatec.samples.search import Search, search_text


@dataclass(frozen=True)
class ExportedContents:
    """A method of an exported model.

    Attributes:
        name: name of the method, such as "forward".
        inputs: name -> dtype and shape, as text; dynamic sizes are symbols.
        outputs: likewise.
        symbols: symbol of a dynamic size -> its range, as text.
        parameters: number of weights and buffers.
        parameter_bytes: their size in bytes.
        operators: operators of its graph, the most frequent first.
    """

    name: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    symbols: dict[str, str]
    parameters: int
    parameter_bytes: int
    operators: tuple[OperatorCount, ...]


def inspect_model(methods: Mapping[str, ExportedProgram]) -> list[ExportedContents]:
    """Summarizes the methods of an exported model."""
    return [_method(name, exported) for name, exported in methods.items()]


def value_text(value: Any) -> str:
    """Returns the value of a constant method as text: tensors by dtype and shape."""
    if isinstance(value, torch.Tensor):
        return _kind(value)
    if isinstance(value, (tuple, list)):
        items = ", ".join(map(value_text, value))
        return f"[{items}]" if isinstance(value, list) else f"({items}{',' * (len(value) == 1)})"
    return repr(value)


def format_model(
    methods: list[ExportedContents],
    constant_methods: Mapping[str, str],
    accuracy: Sequence[OutputAccuracy] = (),
    search: Search | None = None,
) -> str:
    """Returns an exported model as text, with a final newline.

    Args:
        methods: the methods that compute something.
        constant_methods: name -> value, as text.
        accuracy: the error of each output of a quantized model.
        search: how its layers in float were chosen.
    """
    lines = [f"exported model of {len(methods)} method(s)"]
    for method in methods:
        size = human_bytes(method.parameter_bytes)
        lines += ["", f"method {method.name}: {method.parameters} parameters and buffers, {size}"]
        lines += [f"  input   {name}: {kind}" for name, kind in method.inputs.items()]
        lines += [f"  output  {name}: {kind}" for name, kind in method.outputs.items()]
        lines += [f"  dynamic {name}: {bounds}" for name, bounds in method.symbols.items()]
        lines += [f"  error   {accuracy_text(each)}" for each in accuracy if each.method == method.name]
        lines += [f"  {operator.count:5}  {operator.name}" for operator in method.operators]
    if search is not None:
        lines += ["", *search_text(search)]
    if constant_methods:
        lines += ["", *(f"method {name}: returns {text}" for name, text in constant_methods.items())]
    return "\n".join(lines) + "\n"


def _method(name: str, exported: ExportedProgram) -> ExportedContents:
    signature = exported.graph_signature
    nodes = exported.graph.find_nodes(op="placeholder")
    inputs = {
        node.name: _kind(node.meta.get("val"))
        for node, spec in zip(nodes, signature.input_specs, strict=True)
        if spec.kind is InputKind.USER_INPUT
    }
    results = exported.graph.output_node().args[0]
    assert isinstance(results, (list, tuple))
    outputs = {
        getattr(node, "name", repr(node)): _kind(
            node.meta.get("val") if isinstance(node, torch.fx.Node) else node
        )
        for node, spec in zip(results, signature.output_specs, strict=True)
        if spec.kind.name == "USER_OUTPUT"
    }
    weights = [
        *exported.state_dict.values(),
        *(c for c in exported.constants.values() if isinstance(c, torch.Tensor)),
    ]
    calls = Counter(str(node.target) for node in exported.graph.nodes if node.op == "call_function")
    return ExportedContents(
        name=name,
        inputs=inputs,
        outputs=outputs,
        symbols={str(symbol): f"{r.lower} to {r.upper}" for symbol, r in exported.range_constraints.items()},
        parameters=len(weights),
        parameter_bytes=sum(weight.numel() * weight.element_size() for weight in weights),
        operators=tuple(OperatorCount(*item) for item in sorted(calls.items(), key=lambda i: (-i[1], i[0]))),
    )


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"
    return f"{type(value).__name__} {value!r}"
