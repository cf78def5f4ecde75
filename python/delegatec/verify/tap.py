# SPDX-License-Identifier: Apache-2.0
"""Exported programs that return one of their inner values instead of their results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, OutputKind, OutputSpec, TensorArgument
from torch.fx import Node
from torch.utils import _pytree as pytree

aten: Final = torch.ops.aten


def tap(exported: ExportedProgram, name: str) -> None:
    """Makes a program return a copy of one value, and compute no more than this value and its state needs.

    Args:
        exported: a program; it is edited.
        name: the node of the value, a tensor.
    """
    graph = exported.graph
    (node,) = (each for each in graph.nodes if each.name == name)
    with graph.inserting_after(node):
        # A later operator may write to the value.
        copy = graph.call_function(aten.clone.default, (node,))
    copy.meta = dict(node.meta)
    signature = exported.graph_signature
    output = graph.output_node()
    results: Any = output.args[0]
    kept = [
        (value, spec)
        for value, spec in zip(results, signature.output_specs, strict=True)
        if spec.kind is not OutputKind.USER_OUTPUT
    ]
    output.args = ((*(value for value, _ in kept), copy),)
    output.meta.pop("val", None)
    exported._graph_signature = ExportGraphSignature(
        signature.input_specs,
        [*(spec for _, spec in kept), OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(copy.name), None)],
    )
    entry = exported.module_call_graph[0]
    assert entry.signature is not None
    outputs: list[Any] = [TensorArgument(copy.name)]
    spec = pytree.tree_structure(0)
    exported.module_call_graph[0] = replace(
        entry, signature=replace(entry.signature, outputs=outputs, out_spec=spec)
    )
    graph.eliminate_dead_code()
    exported.graph_module.recompile()


def returned(exported: ExportedProgram, path: str) -> str | None:
    """Returns the name of the node that computes a result; None if no operator computes it as a tensor.

    Args:
        exported: a program.
        path: the path of the result, as `torch.utils._pytree.keystr` writes it.
    """
    user = [spec for spec in exported.graph_signature.output_specs if spec.kind is OutputKind.USER_OUTPUT]
    out_spec = exported.call_spec.out_spec
    assert out_spec is not None
    numbered = pytree.tree_unflatten(range(len(user)), out_spec)
    positions = {pytree.keystr(keys): index for keys, index in pytree.tree_flatten_with_path(numbered)[0]}
    argument = user[positions[path]].arg if path in positions else None
    return argument.name if isinstance(argument, TensorArgument) else None


def candidates(exported: ExportedProgram, name: str) -> list[str]:
    """Returns the tensors that a value is computed from, and the value itself, in execution order.

    Values that are about to be quantized are not among them, nor quantized ones: a backend computes a layer
    and the quantization of its result at once, which it could not if somebody else reads the value between.

    Args:
        exported: a program.
        name: the node of the value.
    """
    nodes = {node.name: node for node in exported.graph.nodes}
    needed: set[Node] = set()
    waiting = [nodes[name]]
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting += node.all_input_nodes
    return [
        node.name
        for node in exported.graph.nodes
        if node in needed and _is_computed(node) and (node.name == name or not _is_inside_quantization(node))
    ]


def _is_computed(node: Node) -> bool:
    return node.op == "call_function" and isinstance(node.meta.get("val"), torch.Tensor)


def _is_inside_quantization(node: Node) -> bool:
    return _quantizes(node) or (bool(node.users) and all(map(_quantizes, node.users)))


def _quantizes(node: Node) -> bool:
    return getattr(node.target, "__name__", "").startswith("quantize_")
