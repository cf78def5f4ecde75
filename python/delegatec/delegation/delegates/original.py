# SPDX-License-Identifier: Apache-2.0
"""The original nodes of a delegate, as a program on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export.graph_signature import InputSpec
from torch.fx import Interpreter, Node

from delegatec.delegation.delegates.extract import extract
from delegatec.delegation.protocol.view import PartitionView
from delegatec.edge.program import EdgeProgram


class Original:
    """The nodes of a partition before a delegate replaced them.

    Nothing is copied: an erased node keeps its metadata, and its target and arguments are recorded before it
    is erased. Constants are the model's own tensors.

    Args:
        view: the partition, still in its graph.
        specs: name of a placeholder of the view's program -> its spec; for constants.

    Attributes:
        inputs: operands from outside the partition, in order.
        outputs: nodes of the partition that are used outside, in order.
        constants: placeholder -> its tensor.
    """

    def __init__(self, view: PartitionView, specs: Mapping[str, InputSpec]) -> None:
        self.inputs = view.inputs
        self.outputs = view.outputs
        self.constants = view.constants
        self._calls = [(node, node.target, node.args, node.kwargs) for node in view.nodes]
        self._specs = {node.name: specs[node.name] for node in view.constants if node.name in specs}
        self._ranges = view.program.range_constraints
        self._state = view.state
        self._bodies = view.bodies
        self._body_nodes = tuple(view.body_nodes())

    def __len__(self) -> int:
        """Returns the number of nodes."""
        return len(self._calls) + len(self._body_nodes)

    def by_handle(self) -> dict[int, Node]:
        """Returns debug handle -> a node that has it."""
        nodes = (*self._body_nodes, *(node for node, *_ in self._calls))
        return {node.meta["debug_handle"]: node for node in nodes if "debug_handle" in node.meta}

    @cached_property
    def program(self) -> EdgeProgram:
        """Returns the nodes as a separate program with the delegate's inputs and outputs, in order."""
        return extract(
            self._calls,
            self.inputs,
            self.outputs,
            self.constants,
            specs=self._specs,
            ranges=self._ranges,
            state=self._state,
            bodies=self._bodies,
        )

    def infer(self, mode: FakeTensorMode, inputs: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """Returns the delegate's outputs for fake inputs, for tracing by torch.

        Args:
            mode: of the inputs; it must be active.
            inputs: the delegate's inputs, in order: fake tensors, and scalars.
        """
        values = [node.meta["val"] for node in self.outputs]
        if all(isinstance(size, int) for value in values for size in value.shape):
            return tuple(torch.empty(value.shape, dtype=value.dtype) for value in values)
        constants = (torch.empty(tensor.shape, dtype=tensor.dtype) for tensor in self.constants.values())
        results = Interpreter(self.program.graph_module).run(*constants, *inputs)
        return tuple(results[len(self._state) :])
