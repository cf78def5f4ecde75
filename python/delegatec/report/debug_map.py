# SPDX-License-Identifier: Apache-2.0
"""The debug map: from instructions of a program to lines of the model, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypedDict

from delegatec.delegation.delegates.operators import operator_name
from delegatec.edge.program import EdgeProgram
from delegatec.program.emitted import (
    DelegateCall,
    EmittedMethod,
    EmittedProgram,
    Instruction,
    KernelCall,
    ListValue,
)
from delegatec.report.decoding import Size, decoded

Sources = dict[int, dict[str, Any]]


class _Handle(TypedDict):
    node: str
    operator: str
    operators: list[str]
    module: str
    source: str
    via: str


class _Instruction(TypedDict):
    calls: str
    handles: list[int]
    outputs: Size


class _Delegate(TypedDict):
    name: str
    backend: str
    bytes: Size
    instructions: list[int]
    map: dict[str, list[int]]
    constants: dict[str, str]


class _Method(TypedDict):
    handles: dict[str, _Handle]
    instructions: list[_Instruction]
    delegates: list[_Delegate]


class _DebugMap(TypedDict):
    methods: dict[str, _Method]


def sources_of(program: EdgeProgram) -> Sources:
    """Returns the origin of each debug handle. Call it before delegation removes nodes from the graph.

    Returns:
        Debug handle -> node and operator of the exported program, resulting operators of the edge program,
        their module, and the user's line. Handles without resulting operators are omitted.
    """
    sources: Sources = {}
    for part in program.walk():
        for node in part.graph.nodes:
            handle = node.meta.get("debug_handle")
            if node.op != "call_function" or handle is None:
                continue
            entry = sources.setdefault(handle, {"node": "", "operator": "", "operators": []})
            entry["operators"].append(operator_name(node))
            if "module" not in entry:
                location = node.meta.get("source")
                modules = list((node.meta.get("nn_module_stack") or {}).values())
                entry["module"] = modules[-1][0] if modules else ""
                entry["source"] = str(location) if location else ""
                entry["via"] = location.via if location else ""
    for handle, origin in program.origins.items():
        if handle in sources:
            sources[handle].update(node=origin.node, operator=origin.operator)
    return dict(sorted(sources.items()))


def debug_map_json(sources: Mapping[str, Sources], emitted: EmittedProgram) -> str:
    """Returns the result of `debug_map` as JSON."""
    return as_json(debug_map(sources, emitted))


def as_json(document: dict[str, Any]) -> str:
    """Returns a debug map as JSON, with a final newline."""
    return json.dumps(document, indent=1) + "\n"


def parse_debug_map(text: str) -> dict[str, Any]:
    """Reads the result of `debug_map_json`; raises ValueError for other texts."""
    document: dict[str, Any] = decoded(_DebugMap, json.loads(text))
    for method in document["methods"].values():
        for delegate in method["delegates"]:
            for constant in delegate["constants"]:
                int(constant)
    return document


def debug_map(sources: Mapping[str, Sources], emitted: EmittedProgram) -> dict[str, Any]:
    """Returns the debug map of a program.

    Args:
        sources: method name -> origins of its debug handles.
        emitted: the program.

    Returns:
        `{"methods": {name: {"handles", "instructions", "delegates"}}}`:

        - handles: debug handle, as text -> `{"node", "operator", "operators", "module", "source", "via"}`:
          node and operator of the exported program; resulting operators of the edge program; the module's
          path; the user's line, and the library line below it.
        - instructions: in program order, as indexed by the runtime: `{"calls", "handles", "outputs"}`:
          a kernel, or the name of a delegate; debug handles; number of results.
        - delegates: `{"name", "backend", "bytes", "instructions", "map", "constants"}`: size of its blob;
          indices of the instructions that call it; the backend's identifier of each of its instructions, as
          text -> debug handles; id of a constant in the blob's graph, as text -> its fully qualified name.
    """
    return {"methods": _methods(sources, emitted)}


def _methods(sources: Mapping[str, Sources], emitted: EmittedProgram) -> dict[str, Any]:
    return {
        method.name: _method(method, sources[method.name])
        for method in emitted.methods
        if method.name in sources  # a constant method has none
    }


def delegate_calls(method: EmittedMethod) -> dict[int, DelegateCall]:
    """Returns index -> instruction for each delegate call."""
    return {
        index: instruction
        for index, instruction in enumerate(method.instructions)
        if isinstance(instruction, DelegateCall)
    }


def _method(method: EmittedMethod, sources: Sources) -> dict[str, Any]:
    calls = delegate_calls(method)
    return {
        "handles": {str(handle): source for handle, source in sources.items()},
        "instructions": [
            {
                "calls": _calls(method, instruction),
                "handles": handles,
                "outputs": _outputs(method, instruction),
            }
            for instruction, handles in zip(method.instructions, method.debug_handles, strict=True)
        ],
        "delegates": [
            {
                "name": delegate.name,
                "backend": delegate.backend_id,
                "bytes": sum(map(len, delegate.blob)),
                "instructions": [index for index, call in calls.items() if call.delegate == position],
                "map": {str(identifier): h for identifier, h in delegate.debug_handle_map.items()},
                "constants": {str(id): name for id, name in delegate.constant_names.items()},
            }
            for position, delegate in enumerate(method.delegates)
        ],
    }


def _calls(method: EmittedMethod, instruction: Instruction) -> str:
    if isinstance(instruction, KernelCall):
        name, overload = method.operators[instruction.operator]
        return f"{name}.{overload}" if overload else name
    if isinstance(instruction, DelegateCall):
        return method.delegates[instruction.delegate].name
    return type(instruction).__name__


def _outputs(method: EmittedMethod, instruction: Instruction) -> int:
    if isinstance(instruction, DelegateCall):
        return method.delegates[instruction.delegate].num_outputs
    if isinstance(instruction, KernelCall):
        result = method.values[instruction.args[-1]]  # results follow the arguments
        return len(result.items) if isinstance(result, ListValue) else 1
    return 0
