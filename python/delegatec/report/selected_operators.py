# SPDX-License-Identifier: Apache-2.0
"""`selected_operators.yaml`, from which ExecuTorch builds a library of the kernels that programs call.

Facts: keys and values are those of `executorch.codegen.tools.gen_oplist` 1.4.1, and
`torchgen.selective_build.selector.SelectiveBuilder` reads them. `debug_info` is for people: the programs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from delegatec.diagnostics.documents import json_document
from delegatec.report.needs import RuntimeNeeds, union_of

# Incremented when a field changes its meaning or is removed.
SCHEMA_VERSION: Final = 1


def selected_operators(programs: Mapping[str, RuntimeNeeds]) -> str:
    """Returns the operators of some programs as YAML.

    Args:
        programs: name of each program, such as its target -> what it needs.
    """
    needs = union_of(programs.values())
    return "\n".join(
        [
            "# What programs call outside of delegates, for a selective build of ExecuTorch's kernels.",
            *(f"# program: {json.dumps(name)}" for name in sorted(programs)),
            f"# backends to link: {', '.join(needs.backends) or 'none'}",
            f"# EXECUTORCH_SELECT_OPS_LIST: {','.join(needs.kernels) or 'none, link no library of kernels'}",
            *(f"# in the library of optimized kernels only: {name}" for name in needs.optimized),
            "build_features: []",
            "custom_classes: []",
            *_mapping("et_kernel_metadata", _metadata(needs)),
            "include_all_non_op_selectives: false",
            "include_all_operators: false",
            "kernel_metadata: {}",
            *_mapping("operators", _operators(programs, needs)),
            "",
        ]
    )


def runtime_json(programs: Mapping[str, RuntimeNeeds]) -> str:
    """Returns what an app links for some programs as JSON, with a final newline.

    The arguments are those of `selected_operators`.
    """
    needs = union_of(programs.values())
    document = {
        "schema_version": SCHEMA_VERSION,
        "backends": {name: _users(programs, backend=name) for name in needs.backends},
        "kernels": {name: _users(programs, operator=name) for name in needs.kernels},
        "optimized": list(needs.optimized),
        "primitives": sorted(set(needs.operators) - set(needs.kernels)),
    }
    return json_document(document)


def _metadata(needs: RuntimeNeeds) -> Iterable[str]:
    for name, keys in needs.operators.items():
        if not keys:
            yield f"  {json.dumps(name)}: []"
            continue
        yield f"  {json.dumps(name)}:"
        yield from (f"  - {key}" for key in keys)


def _operators(programs: Mapping[str, RuntimeNeeds], needs: RuntimeNeeds) -> Iterable[str]:
    for name in needs.operators:
        yield f"  {json.dumps(name)}:"
        yield "    debug_info:"
        yield from (f"    - {json.dumps(user)}" for user in _users(programs, operator=name))
        yield "    include_all_overloads: false"
        yield "    is_root_operator: true"
        yield "    is_used_for_training: true"


def _users(programs: Mapping[str, RuntimeNeeds], *, operator: str = "", backend: str = "") -> list[str]:
    return sorted(
        name for name, needs in programs.items() if operator in needs.operators or backend in needs.backends
    )


def _mapping(key: str, lines: Iterable[str]) -> list[str]:
    below = list(lines)
    return [f"{key}:", *below] if below else [f"{key}: {{}}"]
