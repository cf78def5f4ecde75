# SPDX-License-Identifier: Apache-2.0
"""What a delegate was made of: kept as it was, and brought into the form of a program when somebody asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export.graph_signature import InputSpec
from torch.fx import Interpreter

from delegatec.delegation.extract import extract
from delegatec.delegation.view import PartitionView
from delegatec.edge.program import EdgeProgram


class Original:
    """The nodes of a partition as they were before a delegate took their place.

    Nothing is copied: a node that leaves its graph keeps its metadata, and what it called with which
    arguments is held from before it left. Constants are the model's own tensors.

    Args:
        view: the partition, still in its graph.
        specs: name of a placeholder of the view's program -> its spec; for constants.

    Attributes:
        inputs: nodes that the partition reads, in order.
        outputs: nodes of the partition that are read outside, in order.
        constants: placeholder -> its tensor.
    """

    def __init__(self, view: PartitionView, specs: Mapping[str, InputSpec]) -> None:
        self.inputs = view.inputs
        self.outputs = view.outputs
        self.constants = view.constants
        self._calls = [(node, node.target, node.args, node.kwargs) for node in view.nodes]
        self._specs = {node.name: specs[node.name] for node in view.constants if node.name in specs}
        self._ranges = view.program.range_constraints

    def __len__(self) -> int:
        """Number of nodes."""
        return len(self._calls)

    @cached_property
    def program(self) -> EdgeProgram:
        """The nodes as a program of their own, whose inputs and outputs are the delegate's, in order."""
        return extract(
            self._calls, self.inputs, self.outputs, self.constants, specs=self._specs, ranges=self._ranges
        )

    def infer(self, mode: FakeTensorMode, inputs: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """The delegate's outputs for fake inputs: what torch needs to trace its call.

        Args:
            mode: of the inputs; it must be active.
            inputs: the delegate's inputs, in order: fake tensors, and numbers.
        """
        values = [node.meta["val"] for node in self.outputs]
        if all(isinstance(size, int) for value in values for size in value.shape):
            return tuple(torch.empty(value.shape, dtype=value.dtype) for value in values)
        constants = (mode.from_tensor(tensor, static_shapes=True) for tensor in self.constants.values())
        return tuple(Interpreter(self.program.graph_module).run(*constants, *inputs))
