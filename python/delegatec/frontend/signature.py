# SPDX-License-Identifier: Apache-2.0
"""Inputs, outputs and constants of a program as JSON: the `--signature` output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils._sympy.numbers import int_oo

from delegatec.samples.recorded import RecordedSamples

_STORED = {
    InputKind.PARAMETER: "parameters",
    InputKind.BUFFER: "buffers",
    InputKind.CONSTANT_TENSOR: "constants",
}


def signature_json(
    methods: Mapping[str, ExportedProgram], samples: RecordedSamples | None = None, digest: str = ""
) -> str:
    """Returns the signature of each method.

    Args:
        methods: method -> its program.
        samples: the calls of the model that the programs agree with.
        digest: the SHA-256 digest of their file; "" for no file.

    Returns:
        `{"methods": {name: {"inputs": [...], "outputs": [...], "parameters": [...], "buffers": [...],
        "constants": [...], "symbols": {name: {"min": int, "max": int}}}}}`. A tensor is `{"name", "dtype",
        "shape"}`, each dimension an int or a symbolic expression; a constant is `{"name", "value"}`. With a
        file of samples also `"samples": {"sha256": str, "calls": [{"method", "name"}]}`.
    """
    content: dict[str, Any] = {"methods": {name: _method(program) for name, program in methods.items()}}
    if samples is not None and digest:
        calls = [{"method": call.method, "name": call.name} for call in samples.calls]
        content["samples"] = {"sha256": digest, "calls": calls}
    return json.dumps(content, indent=1) + "\n"


def _method(program: ExportedProgram) -> dict[str, Any]:
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    method: dict[str, Any] = {"inputs": [], "outputs": [], "parameters": [], "buffers": [], "constants": []}
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            method["inputs"].append(_value(spec.arg, values))
        elif spec.kind in _STORED:
            entry = _value(spec.arg, values) | {"name": spec.target}
            if spec.kind is InputKind.BUFFER:
                entry["persistent"] = bool(spec.persistent)
            method[_STORED[spec.kind]].append(entry)
    for output in program.graph_signature.output_specs:
        entry = _value(output.arg, values)
        if output.kind is not OutputKind.USER_OUTPUT:
            entry |= {"kind": output.kind.name.lower(), "target": output.target}
        method["outputs"].append(entry)
    method["symbols"] = {
        str(symbol): {"min": _bound(bounds.lower), "max": _bound(bounds.upper)}
        for symbol, bounds in sorted(program.range_constraints.items(), key=lambda item: str(item[0]))
    }
    return method


def _value(argument: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    if hasattr(argument, "value"):
        return {"name": argument.name, "value": argument.value}
    value = values.get(argument.name)
    if not isinstance(value, torch.Tensor):
        return {"name": argument.name, "type": type(value).__name__}
    shape = [size if isinstance(size, int) else str(size) for size in value.shape]
    return {"name": argument.name, "dtype": str(value.dtype).removeprefix("torch."), "shape": shape}


def _bound(value: Any) -> int | None:
    return None if value in (int_oo, -int_oo) else int(value)
