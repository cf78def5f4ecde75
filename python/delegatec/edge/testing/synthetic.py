# SPDX-License-Identifier: Apache-2.0
"""Synthetic edge programs, for tests and benchmarks with many nodes."""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export.graph_signature import (
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree

from delegatec.edge.program import EdgeProgram


class Synthetic:
    """A program of many calls on one small input, built without tracing."""

    def __init__(self) -> None:
        self._mode = FakeTensorMode()
        with self._mode:
            self._val = torch.empty(4)
        self._graph = Graph()
        self._specs: list[InputSpec] = []
        self._constants: dict[str, torch.Tensor] = {}

    def input(self) -> Node:
        node = self._graph.placeholder("x")
        self._specs.append(InputSpec(InputKind.USER_INPUT, TensorArgument(node.name), None))
        return self._with_value(node)

    def constant(self, value: float) -> Node:
        node = self._graph.placeholder(f"p{len(self._specs)}")
        self._specs.append(InputSpec(InputKind.PARAMETER, TensorArgument(node.name), f"weight.{node.name}"))
        self._constants[node.name] = torch.full((4,), value)
        return self._with_value(node)

    def call(self, target: object, *args: object) -> Node:
        return self._with_value(self._graph.call_function(target, args))  # type: ignore[arg-type]

    def program(self, *results: Node) -> EdgeProgram:
        self._graph.output(results)
        nothing = pytree.tree_structure(((), {}))
        outputs = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in results]
        module = GraphModule({}, self._graph)
        return EdgeProgram("forward", module, self._specs, outputs, self._constants, {}, nothing, nothing)

    def _with_value(self, node: Node) -> Node:
        node.meta.update(val=self._val, source=None, debug_handle=1)
        return node
