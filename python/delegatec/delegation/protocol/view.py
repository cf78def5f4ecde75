# SPDX-License-Identifier: Apache-2.0
"""A view of one partition, for `Backend.preprocess`. Nothing is copied."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch.export.graph_signature import OutputKind
from torch.fx import Node

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.control_flow import FORMS, body_nodes
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import size_nodes

EXTERNAL: Final = "external_weight"
"""Metadata of the placeholder of a weight in a `.ptd`: its name there, and the address of its elements."""


def external_name(constant: Node, tensor: torch.Tensor) -> str | None:
    """Returns the name of a weight in the program's `.ptd`: the key of named data with the same bytes.

    Args:
        constant: a placeholder.
        tensor: its value, as the delegate stores it.

    Returns:
        The name; None if the program has no `.ptd`, or the constant is not one of the weights, unchanged.
    """
    name, address = constant.meta.get(EXTERNAL, (None, 0))
    return name if tensor.data_ptr() == address and tensor.is_contiguous() else None


class PartitionView:
    """A set of nodes of a program, with its inputs and outputs.

    Args:
        program: the program of the nodes.
        nodes: the nodes, in topological order.
        mutated: names of the placeholders that the program writes to, if already known.
        facts: analysis results for the program, shared by views; by default from the view's constants.
        state: placeholder of each buffer that the delegate keeps -> its new value, one of the nodes.
        computes_sizes: whether the scalars that the nodes compute from sizes of tensors belong to the
            partition. They are never outputs: users outside of the partition have the original nodes.

    Attributes:
        program: as given.
        nodes: as given, after the nodes that compute their scalars, if these belong to the partition.
        inputs: operands from outside the partition that are not constants, in order of first use.
        constants: placeholder -> its tensor, for each constant operand, in order of first use. A buffer that
            the program writes to is an input.
        outputs: nodes of the partition whose value is used outside, in order. Of a node with several
            results, the `getitem` nodes.
        bodies: `get_attr` node -> its program, for each body of the partition's control flow.
        facts: analysis results for the program.
        state: as given. The initial value of a kept buffer is a constant; its new value is an output only if
            it has other uses outside.
    """

    def __init__(
        self,
        program: EdgeProgram,
        nodes: Sequence[Node],
        mutated: Collection[str] | None = None,
        facts: Facts | None = None,
        state: Mapping[Node, Node] | None = None,
        computes_sizes: bool = False,
    ) -> None:
        self.program = program
        self.nodes = (*(size_nodes(nodes) if computes_sizes else ()), *nodes)
        self.state = dict(state or {})
        members = set(self.nodes)
        if mutated is None:
            mutated = program.mutated_inputs()
        inputs: dict[Node, None] = {}
        self.constants: dict[Node, torch.Tensor] = {}
        self.bodies: dict[Node, EdgeProgram] = {}
        for node in self.nodes:
            for source in node.all_input_nodes:
                if source in members:
                    continue
                if source.name in program.bodies:
                    self.bodies[source] = program.bodies[source.name]
                    continue
                is_fixed = source in self.state or source.name not in mutated
                if source.name in program.constants and is_fixed:
                    self.constants[source] = program.constants[source.name]
                else:
                    inputs[source] = None
        self.inputs = tuple(inputs)
        used = set(program.results(without=[node.name for node in self.state]))
        self.outputs = tuple(
            node
            for node in nodes
            if any(user not in members and (user.op != "output" or node in used) for user in node.users)
        )
        fixed = {node.name: tensor for node, tensor in self.constants.items() if node not in self.state}
        self.facts = facts or Facts(fixed)

    def body_nodes(self) -> Iterator[Node]:
        """Yields the calls in the bodies of the partition's control flow, recursively."""
        for node in self.nodes:
            if node.target in FORMS:
                yield from body_nodes(self.program, node)

    @classmethod
    def of_program(cls, program: EdgeProgram, outer: PartitionView) -> PartitionView:
        """Returns a view of a complete program that was extracted from a partition, or of one of its bodies.

        Its inputs and outputs are those of the program, in its order, even if unused; an output may be an
        input, a constant or a duplicate.

        Args:
            program: the program.
            outer: the partition, whose facts hold for the inputs.
        """
        facts = outer.facts_in(program)
        nodes = [node for node in program.graph.nodes if node.op == "call_function"]
        view = cls(program, nodes, (), facts)
        results: Any = program.output_node().args[0]
        view.inputs = tuple(program.user_inputs())
        view.outputs = tuple(
            result
            for result, spec in zip(results, program.output_specs, strict=True)
            if spec.kind is OutputKind.USER_OUTPUT
        )
        # a pass may replace a result by a constant that no call uses
        for result in view.outputs:
            if result.name in program.constants:
                view.constants[result] = program.constants[result.name]
        return view

    def facts_in(self, program: EdgeProgram) -> Facts:
        """Returns facts for a program that was extracted from this partition, or for one of its bodies."""
        # the state of a loop has other values than its operands
        own = () if program.is_body else self.inputs
        inputs = dict(zip(program.user_inputs(), own, strict=not program.is_body))
        # Passes may add constants. The initial values of buffers are not constants.
        fixed: Any = ChainMap[str, Any](dict.fromkeys(program.mutated_inputs()), program.constants)
        return Facts(fixed, lambda node: self.facts.of(inputs[node]) if node in inputs else None)
