# SPDX-License-Identifier: Apache-2.0
"""Gives every output of a program memory of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch.export.graph_signature import OutputKind
from torch.fx import Node

from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten


def own_outputs(program: EdgeProgram) -> None:
    """Copies outputs that are inputs or constants, and outputs that are returned twice.

    A caller may write to the memory of an output, or hand in memory for it; that must not be the memory of an
    input, of a constant in a read-only file, or of another output.
    """
    output = program.output_node()
    results: Any = output.args[0]
    builder = Builder(program).at(output)
    seen: set[Node] = set()
    owned = []
    for result, spec in zip(results, program.output_specs, strict=True):
        if isinstance(result, Node) and isinstance(result.meta["val"], torch.Tensor):
            is_user_output = spec.kind is OutputKind.USER_OUTPUT
            if is_user_output and (result.op == "placeholder" or result in seen):
                source, result = result, builder.call(aten.clone.default, result)
                for key in ("source", "debug_handle"):
                    result.meta[key] = source.meta.get(key)
            if is_user_output:
                seen.add(result)
        owned.append(result)
    output.args = (tuple(owned),)
