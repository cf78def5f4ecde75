# SPDX-License-Identifier: Apache-2.0
"""Archives for tests: written, edited and compared."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from delegatec.frontend.aligned_zip import AlignedZipWriter

ROOT = "archive"
PROGRAM = "models/model.json"


def members(path: Path) -> dict[str, bytes]:
    """Returns the members of an archive by their path below the root directory."""
    with zipfile.ZipFile(path) as archive:
        return {info.filename.partition("/")[2]: archive.read(info) for info in archive.infolist()}


def write(path: Path, content: dict[str, bytes]) -> str:
    """Writes an archive with valid headers and checksums; returns its path."""
    with path.open("wb") as file, AlignedZipWriter(file, ROOT) as archive:
        for name, data in content.items():
            archive.write(name, [data], len(data))
    return str(path)


def edited(path: Path, member: str, change: Callable[[Any], None]) -> str:
    """Changes the JSON of a member in place, and returns the path of the new archive."""
    content = members(path)
    document = json.loads(content[member])
    change(document)
    content[member] = json.dumps(document).encode()
    return write(path.with_name("edited.pt2"), content)


def described(program: ExportedProgram) -> list[str]:
    """Returns everything that the compiler reads of a program, without the tensors' content."""
    lines = []
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                kept = {
                    key: node.meta[key]
                    for key in ("stack_trace", "nn_module_stack", "custom", "unbacked_bindings")
                    if key in node.meta
                }
                value = _value(node.meta.get("val"))
                lines.append(f"{node.op} {node.name} {node.target} {node.args} {node.kwargs} {value} {kept}")
    stored = {name: _value(tensor) for name, tensor in {**program.state_dict, **program.constants}.items()}
    bounds = {str(symbol): str(limits) for symbol, limits in program.range_constraints.items()}
    call = program.module_call_graph[0]
    assert call.signature is not None
    names = call.signature.forward_arg_names
    return [
        *lines,
        f"{program.graph_signature} {program.call_spec} {stored} {bounds} {program.dialect} {names}",
    ]


def _value(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        sizes = [str(size) for size in value.shape], [str(stride) for stride in value.stride()]
        return type(value).__name__, value.dtype, value.device, value.requires_grad, sizes
    if isinstance(value, (tuple, list)):
        return [_value(item) for item in value]
    return type(value).__name__, str(value)
