# SPDX-License-Identifier: Apache-2.0
"""Copies a partition into a private program with the same inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.export.graph_signature import (
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from delegatec.delegation.protocol.view import PartitionView
from delegatec.edge.program import EdgeProgram

Call = tuple[Node, Any, tuple[Any, ...], dict[str, Any]]
"""A node with its target, positional and keyword arguments."""


def extract(
    calls: Iterable[Call],
    inputs: Sequence[Node],
    outputs: Sequence[Node],
    constants: Mapping[Node, torch.Tensor],
    *,
    specs: Mapping[str, InputSpec],
    ranges: Mapping[Any, Any],
    state: Mapping[Node, Node],
    bodies: Mapping[Node, EdgeProgram],
    method: str = "delegate",
) -> EdgeProgram:
    """Copies calls into a new program, which shares tensors and values in metadata.

    Args:
        calls: in topological order.
        inputs: operands from outside; they become the user inputs, in this order.
        outputs: calls whose values the new program returns, in this order.
        constants: placeholder -> its tensor.
        specs: name of a constant's placeholder -> its spec, if it is from the model.
        ranges: of symbols, see `EdgeProgram.range_constraints`.
        state: placeholder of each buffer that the calls write to -> its new value.
        bodies: `get_attr` node of each body of control flow that the calls run -> its program, which is
            copied.
        method: name of the new program.
    """
    graph = Graph()
    copies: dict[Node, Node] = {}
    input_specs = []
    for node in (*constants, *inputs):
        copies[node] = graph.placeholder(node.name)
        copies[node].meta.update(node.meta)
        input_specs.append(_spec(copies[node], node in constants, specs.get(node.name)))
    owner = _owner(graph)
    copied: dict[str, EdgeProgram] = {}
    for node, body in bodies.items():
        copied[node.name] = _body(body, f"{method}.{node.name}")
        owner.add_submodule(node.name, copied[node.name].graph_module)
        copies[node] = graph.create_node("get_attr", node.name, name=node.name)
        copies[node].meta.update(node.meta)
    for node, target, args, kwargs in calls:
        args, kwargs = map_arg((args, kwargs), copies.__getitem__)
        copies[node] = graph.create_node("call_function", target, args, kwargs, name=node.name)
        copies[node].meta.update(node.meta)
    results = tuple(copies[node] for node in outputs)
    written = tuple(copies[node] for node in state.values())
    graph.output((*written, *results))
    mutations = [
        OutputSpec(OutputKind.BUFFER_MUTATION, _argument(value), specs[buffer.name].target)
        for buffer, value in zip(state, written, strict=True)
    ]
    return EdgeProgram(
        method=method,
        graph_module=owner,
        input_specs=input_specs,
        output_specs=[
            *mutations,
            *(OutputSpec(OutputKind.USER_OUTPUT, _argument(node), None) for node in results),
        ],
        constants={copies[node].name: tensor for node, tensor in constants.items()},
        range_constraints=dict(ranges),
        in_spec=pytree.tree_structure(((0,) * len(inputs), {})),
        out_spec=pytree.tree_structure((0,) * len(results)),
        bodies=copied,
    )


def extract_view(view: PartitionView, specs: Mapping[str, InputSpec]) -> EdgeProgram:
    """Copies a partition into a private program, which its backend's passes may edit.

    Args:
        view: the partition, still in its graph.
        specs: name of a placeholder of the view's program -> its spec.
    """
    calls = ((node, node.target, node.args, node.kwargs) for node in view.nodes)
    return extract(
        calls,
        view.inputs,
        view.outputs,
        view.constants,
        specs=specs,
        ranges=view.program.range_constraints,
        state=view.state,
        bodies=view.bodies,
    )


def _body(body: EdgeProgram, method: str) -> EdgeProgram:
    """Returns a copy of a body of control flow, which shares tensors and values in metadata."""
    nodes = [node for node in body.graph.nodes if node.op == "call_function"]
    copied = extract(
        ((node, node.target, node.args, node.kwargs) for node in nodes),
        tuple(body.user_inputs()),
        body.results(),
        {node: body.constants[node.name] for node in body.placeholders() if node.name in body.constants},
        specs=body.specs_by_name(),
        ranges=body.range_constraints,
        state={},
        bodies=PartitionView(body, nodes).bodies,
        method=method,
    )
    copied.is_body = True
    return copied


def _owner(graph: Graph) -> GraphModule:
    """Returns a module with this graph, without generated Python code: programs are interpreted."""
    module = _LazyGraphModule({}, Graph())
    module._graph = graph
    graph.owning_module = module
    return module


def _spec(node: Node, is_constant: bool, origin: InputSpec | None) -> InputSpec:
    kind, target = InputKind.USER_INPUT, None
    if is_constant:
        kind = InputKind.CONSTANT_TENSOR if origin is None else origin.kind
        target = node.name if origin is None or origin.target is None else origin.target
    return InputSpec(kind, _argument(node), target, persistent=kind is InputKind.BUFFER or None)


def _argument(node: Node) -> TensorArgument | SymIntArgument:
    is_tensor = isinstance(node.meta["val"], torch.Tensor)
    return (TensorArgument if is_tensor else SymIntArgument)(name=node.name)
