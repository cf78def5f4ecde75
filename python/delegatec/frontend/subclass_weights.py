# SPDX-License-Identifier: Apache-2.0
"""Weights of tensor subclasses, such as those of torchao's `quantize_`, as the plain tensors inside them.

torch.export traces into a subclass and reads its parts by an operator, so that only the parts are inputs of
the computation. A part is named after its weight: `layer.weight.qdata`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.fx import Node
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

_READS_PART = torch.ops.export.access_subclass_inner_tensor.default


def unwrap_subclass_weights(program: ExportedProgram) -> None:
    """Replaces weights of tensor subclasses by their parts, in the graph, the signature and the state.

    A weight that the graph also uses as a whole stays.
    """
    signature = program.graph_signature
    specs: list[InputSpec] = []
    placeholders = program.graph.find_nodes(op="placeholder")
    for spec, node in zip(signature.input_specs, placeholders, strict=True):
        value = program.state_dict.get(spec.target or "")
        if value is not None and is_traceable_wrapper_subclass(value):
            specs += _unwrapped(program, node, value, spec)
            if not node.users:
                program.graph.erase_node(node)
                del program.state_dict[spec.target]
                continue
        specs.append(spec)
    if len(specs) != len(placeholders) or any(
        a is not b for a, b in zip(specs, signature.input_specs, strict=True)
    ):
        signature.input_specs[:] = specs
        program.graph_module.recompile()


def _unwrapped(program: ExportedProgram, node: Node, value: Any, spec: InputSpec) -> Iterator[InputSpec]:
    """Yields the specs of new inputs for the plain tensors inside a weight, and uses them in the graph."""
    found: dict[str, Node] = {}
    pending = [(node, value, spec.target)]
    while pending:
        whole, held, name = pending.pop()
        for user in [user for user in whole.users if user.target is _READS_PART]:
            attribute = str(user.args[1])
            part, path = getattr(held, attribute), f"{name}.{attribute}"
            if is_traceable_wrapper_subclass(part):
                pending.append((user, part, path))
                continue
            if path not in found:
                found[path] = _placeholder(program, node, user, path)
                is_parameter = spec.kind is InputKind.PARAMETER
                program.state_dict[path] = (
                    torch.nn.Parameter(part, requires_grad=False) if is_parameter else part
                )
                yield replace(spec, arg=TensorArgument(found[path].name), target=path)
            user.replace_all_uses_with(found[path])
            program.graph.erase_node(user)
        if whole is not node and not whole.users:
            program.graph.erase_node(whole)


def _placeholder(program: ExportedProgram, before: Node, like: Node, path: str) -> Node:
    with program.graph.inserting_before(before):
        placeholder: Node = program.graph.placeholder(f"p_{path.replace('.', '_')}")
    placeholder.meta = {"val": like.meta["val"]}
    return placeholder
