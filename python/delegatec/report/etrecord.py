# SPDX-License-Identifier: Apache-2.0
"""The ETRecord, which ExecuTorch's developer tools join with a runtime's measurements (an ETDump).

A zip file of named entries. Source: ExecuTorch 1.4.1, `executorch.devtools.etrecord`;
`tests/peer/etrecord_test.py` opens these files with its tools. It contains the edge program of each method
before delegation, with its weights, and the maps from instructions to debug handles of its nodes. Times are
fixed, so that the bytes depend only on the program.

The program before conversion (entry `exported_program`) is omitted: it would repeat every weight, and without
it the tools use the edge program.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any, Final

import torch
from torch.export.graph_signature import InputKind

from delegatec.edge.program import EdgeProgram
from delegatec.program.emitted import EmittedMethod, EmittedProgram
from delegatec.report.debug_map import delegate_calls
from delegatec.report.graph_json import graph_json

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_IDENTIFIER: Final = "ETRECORD_V0"
_EDGE: Final = "edge_dialect_exported_program"
_FORWARD: Final = "forward"

ExampleInputs = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class GraphRecord:
    """A method of an ETRecord.

    Attributes:
        graph: the serialized edge program.
        state: fully qualified name -> parameter or buffer.
        constants: name -> lifted constant, or non-persistent buffer.
        example_inputs: (args, kwargs) that the method was exported with; None if unknown.
    """

    graph: bytes
    state: dict[str, torch.Tensor]
    constants: dict[str, torch.Tensor]
    example_inputs: ExampleInputs | None


def graph_record(program: EdgeProgram, example_inputs: ExampleInputs | None = None) -> GraphRecord:
    """Records a method. Call it before delegation removes nodes from the graph; copies no weights.

    Args:
        program: the method.
        example_inputs: (args, kwargs) that it was exported with.

    Raises:
        DelegatecError: DC422, an ETRecord cannot represent the method.
    """
    state: dict[str, torch.Tensor] = {}
    constants: dict[str, torch.Tensor] = {}
    for node, spec in zip(program.placeholders(), program.input_specs, strict=True):
        value = program.constants.get(node.name)
        if value is None or spec.target is None:
            continue
        if spec.kind is InputKind.PARAMETER:
            state[spec.target] = torch.nn.Parameter(value, requires_grad=False)
        else:
            stored = spec.kind is InputKind.BUFFER and spec.persistent is not False
            (state if stored else constants)[spec.target] = value
    graph, lifted = graph_json(program)
    return GraphRecord(graph, state, constants | lifted, example_inputs)


def write_etrecord(records: Mapping[str, GraphRecord], emitted: EmittedProgram, file: IO[bytes]) -> None:
    """Writes an ETRecord, streaming weights.

    Args:
        records: method name -> its record.
        emitted: the program that was emitted from them.
        file: a seekable binary file.
    """
    methods = emitted.methods
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _write(archive, _IDENTIFIER, b"")
        for name, record in records.items():
            entry = f"{_EDGE}/{name}"
            _write(archive, entry, record.graph)
            _save(archive, f"{entry}_state_dict", record.state)
            _save(archive, f"{entry}_constants", record.constants)
            _save(archive, f"{entry}_example_inputs", record.example_inputs or ((), {}))
        _json(archive, "debug_handle_map", {method.name: _debug_handles(method) for method in methods})
        _json(archive, "delegate_map", {method.name: _delegates(method) for method in methods})
        _json(archive, "instruction_id_to_num_outs_map", {m.name: _num_outputs(m) for m in methods})
        inputs = records[_FORWARD].example_inputs if _FORWARD in records else None
        if inputs is not None and not inputs[1]:
            # The tools run the edge program with these as positional arguments of "forward".
            _save(archive, "representative_inputs", list(inputs[0]))


def _debug_handles(method: EmittedMethod) -> dict[int, int | list[int]]:
    """Returns instruction index -> its handle, if any; a list for delegate calls."""
    calls = delegate_calls(method)
    return {
        index: list(handles) if index in calls or len(handles) > 1 else handles[0]
        for index, handles in enumerate(method.debug_handles)
        if handles
    }


def _delegates(method: EmittedMethod) -> dict[int, dict[str, Any]]:
    """Returns instruction index -> backend and its map, for each delegate call."""
    return {
        index: {
            "name": method.delegates[call.delegate].backend_id,
            "delegate_map": method.delegates[call.delegate].debug_handle_map,
        }
        for index, call in delegate_calls(method).items()
    }


def _num_outputs(method: EmittedMethod) -> dict[int, int]:
    """Returns instruction index -> number of results, for delegate calls. The tools assume 1 for others."""
    return {
        index: method.delegates[call.delegate].num_outputs for index, call in delegate_calls(method).items()
    }


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.create_system = 3
    info.external_attr = 0o644 << 16
    return info


def _write(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(_info(name), content)


def _json(archive: zipfile.ZipFile, name: str, content: object) -> None:
    _write(archive, name, json.dumps(content).encode())


def _save(archive: zipfile.ZipFile, name: str, content: object) -> None:
    """Appends the output of `torch.save`, in chunks."""
    with archive.open(_info(name), "w", force_zip64=True) as entry:
        torch.save(content, entry)
