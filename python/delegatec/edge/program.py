# SPDX-License-Identifier: Apache-2.0
"""The edge program: a functional graph of core ATen operators, edited in place from export to emission."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export.graph_signature import InputKind, InputSpec, OutputKind, OutputSpec
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import TreeSpec

from delegatec.edge.handles import Origin

CONSTANT_KINDS = frozenset({InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR})

_MUTATION_KINDS = frozenset(
    {OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION}
)


@dataclass(eq=False)
class EdgeProgram:
    """A method of a model in normal form.

    Code that edits a node updates its metadata: `meta["val"]` (a FakeTensor, a SymInt, a Python scalar, or a
    tuple of these), `meta["source"]` (SourceLocation or None), `meta["debug_handle"]` (int >= 1, shared by
    all nodes that come from one node of the exported program).

    Attributes:
        method: name of the method, such as "forward".
        graph_module: owner of the graph and of the submodules of `get_attr` nodes.
        input_specs: one for each placeholder, in order.
        output_specs: one for each element of the output node's flat tuple.
        constants: placeholder name -> its parameter, buffer or lifted constant. Read-only: the storage may be
            a mapping of a file.
        range_constraints: symbol -> its range from torch.export.
        in_spec: the pytree of (args, kwargs) of the exported method.
        out_spec: the pytree of its results.
        bodies: name of a `get_attr` node -> the program of that body of `cond`, `map`, `scan` or
            `while_loop`. Its placeholders are its own constants, and the operands of the call, in order;
            constants of the enclosing program that it reads become its own.
        dim_orders: name of each input that is not passed row-major -> its dimensions from outermost to
            innermost in memory. In the graph it is row-major, like all values.
        output_orders: position of each of the user's outputs that is not returned row-major -> the same.
        origins: debug handle -> its node of the exported program; of a body, that of its method.
        owns_state: whether nothing else, such as another method, uses the buffers that it writes to: a
            delegate may keep them.
        is_body: whether it is the body of a call of control flow, whose operands are its inputs.
    """

    method: str
    graph_module: GraphModule
    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]
    constants: dict[str, torch.Tensor]
    range_constraints: dict[Any, Any]
    in_spec: TreeSpec
    out_spec: TreeSpec
    bodies: dict[str, EdgeProgram] = field(default_factory=dict)
    dim_orders: dict[str, tuple[int, ...]] = field(default_factory=dict)
    output_orders: dict[int, tuple[int, ...]] = field(default_factory=dict)
    origins: dict[int, Origin] = field(default_factory=dict)
    owns_state: bool = False
    is_body: bool = False

    def walk(self) -> Iterator[EdgeProgram]:
        """Yields this program, then the bodies of its control flow, recursively, in the order of calls."""
        yield self
        for body in self.bodies.values():
            yield from body.walk()

    @property
    def graph(self) -> Graph:
        """The graph of `graph_module`."""
        return self.graph_module.graph

    def placeholders(self) -> list[Node]:
        """Returns all placeholders, in the order of `input_specs`."""
        return self.graph.find_nodes(op="placeholder")

    def user_inputs(self) -> Iterator[Node]:
        """Returns the placeholders of the user's inputs, in order."""
        for node, spec in zip(self.placeholders(), self.input_specs, strict=True):
            if spec.kind is InputKind.USER_INPUT:
                yield node

    def user_outputs(self) -> list[Any]:
        """Returns the values that the program returns to the user, in order."""
        results: Any = self.output_node().args[0]
        return [
            result
            for result, spec in zip(results, self.output_specs, strict=True)
            if spec.kind is OutputKind.USER_OUTPUT
        ]

    def output_node(self) -> Node:
        """Returns the output node."""
        return self.graph.output_node()

    def mutated_inputs(self) -> dict[str, Node]:
        """Returns the name of each placeholder that the program writes to -> the node of its new value."""
        by_target = {
            spec.target if spec.target is not None else node.name: node.name
            for node, spec in zip(self.placeholders(), self.input_specs, strict=True)
        }
        results: Any = self.output_node().args[0]
        return {
            by_target[spec.target]: result
            for spec, result in zip(self.output_specs, results, strict=True)
            if spec.kind in _MUTATION_KINDS and spec.target is not None
        }

    def results(self, without: Collection[str] = ()) -> list[Any]:
        """Returns the values that the program returns or writes, except to placeholders of some names."""
        names = self.names_in_model()
        targets = {names.get(name, name) for name in without}
        results: Any = self.output_node().args[0]
        return [
            result
            for result, spec in zip(results, self.output_specs, strict=True)
            if spec.kind not in _MUTATION_KINDS or spec.target not in targets
        ]

    def specs_by_name(self) -> dict[str, InputSpec]:
        """Returns placeholder name -> its spec."""
        return {node.name: spec for node, spec in zip(self.placeholders(), self.input_specs, strict=True)}

    def names_in_model(self) -> dict[str, str]:
        """Returns placeholder name -> fully qualified name in the model, for parts of the model."""
        return {name: spec.target for name, spec in self.specs_by_name().items() if spec.target is not None}

    def fixed_constants(self) -> dict[str, torch.Tensor]:
        """Returns the constants that the program does not write to."""
        mutated = self.mutated_inputs()
        return {name: value for name, value in self.constants.items() if name not in mutated}

    def erase_unused_bodies(self) -> None:
        """Erases bodies that no call runs any more."""
        named = {node.name for node in self.graph.find_nodes(op="get_attr")}
        self.bodies = {name: body for name, body in self.bodies.items() if name in named}

    def erase_unused_placeholders(self) -> None:
        """Erases unused constants, with their placeholders and specs."""
        kept: list[InputSpec] = []
        mutated = self.mutated_inputs()
        for node, spec in zip(self.placeholders(), self.input_specs, strict=True):
            if spec.kind in CONSTANT_KINDS and not node.users and node.name not in mutated:
                self.constants.pop(node.name, None)
                self.graph.erase_node(node)
            else:
                kept.append(spec)
        self.input_specs = kept
