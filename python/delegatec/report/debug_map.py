# SPDX-License-Identifier: Apache-2.0
"""The debug map: from what a runtime reports of an instruction back to the user's lines, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from delegatec.delegation.report import operator_name
from delegatec.edge.program import EdgeProgram
from delegatec.program.emitted import EmittedMethod, EmittedProgram

Sources = dict[int, dict[str, Any]]


def sources_of(program: EdgeProgram) -> Sources:
    """What each debug handle stands for. To be read before delegation takes nodes out of the graph.

    Returns:
        Debug handle -> its operators, the module they are in, and the user's line.
    """
    sources: Sources = {}
    for node in program.graph.nodes:
        handle = node.meta.get("debug_handle")
        if node.op != "call_function" or handle is None:
            continue
        location = node.meta.get("source")
        modules = list((node.meta.get("nn_module_stack") or {}).values())
        entry = sources.setdefault(
            handle,
            {
                "operators": [],
                "module": modules[-1][0] if modules else "",
                "source": str(location) if location else "",
                "via": location.via if location else "",
            },
        )
        entry["operators"].append(operator_name(node))
    return dict(sorted(sources.items()))


def debug_map_json(sources: Mapping[str, Sources], emitted: EmittedProgram) -> str:
    """The debug map of a program.

    Args:
        sources: method name -> what its debug handles stand for.
        emitted: the program.

    Returns:
        `{"methods": {name: {"handles": {handle: {"operators", "module", "source", "via"}}, "instructions":
        [[handle, ...], ...], "delegates": [{"name", "backend", "instructions": {id: [handle, ...]}}]}}}`:
        instructions in the order of the program, those of a delegate by the id that its backend gives them.
    """
    methods = {method.name: _method(method, sources[method.name]) for method in emitted.methods}
    return json.dumps({"methods": methods}, indent=1) + "\n"


def _method(method: EmittedMethod, sources: Sources) -> dict[str, Any]:
    return {
        "handles": sources,
        "instructions": method.debug_handles,
        "delegates": [
            {"name": d.name, "backend": d.backend_id, "instructions": d.debug_handle_map}
            for d in method.delegates
        ],
    }
