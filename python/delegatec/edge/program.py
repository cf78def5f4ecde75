# SPDX-License-Identifier: Apache-2.0
"""The edge program: one functional graph of core ATen operators, edited in place from export to emission."""

from __future__ import annotations

from collections.abc import Iterator
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
    """One method of a model in normal form.

    Node metadata is kept right by whoever edits a node: `meta["val"]` (a FakeTensor, a SymInt, a Python
    number, or a tuple of these), `meta["source"]` (SourceLocation or None), `meta["debug_handle"]`
    (int >= 1, shared by all nodes that come from one node of the exported program).

    Attributes:
        method: name of the method, such as "forward".
        graph_module: owner of the graph and of the submodules that `get_attr` nodes name.
        input_specs: one for each placeholder, in the order of the placeholders.
        output_specs: one for each element of the output node's flat tuple.
        constants: placeholder name -> its parameter, buffer or lifted constant. Never written to:
            the storage may be a read-only mapping of a file.
        range_constraints: symbol -> the range that torch.export gave it.
        in_spec: the pytree of (args, kwargs) that the exported method took.
        out_spec: the pytree that it returned.
        bodies: name of a `get_attr` node -> the program of that body of `cond`, `map`, `scan` or
            `while_loop`. Its placeholders that are no constants are the operands of the call, in order;
            constants of the owner that it reads are constants of its own, and no operands.
        dim_orders: name of each input that a caller passes in another order than row by row -> its dimensions
            from the outermost in memory to the innermost. In the graph it is row-major as everything is.
        origins: debug handle -> the node of the exported program that it stands for. Of a body, empty: the
            method has those of its bodies too.
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
    origins: dict[int, Origin] = field(default_factory=dict)

    def walk(self) -> Iterator[EdgeProgram]:
        """This program, then the bodies of its control flow, nested ones included, in order of calls."""
        yield self
        for body in self.bodies.values():
            yield from body.walk()

    @property
    def graph(self) -> Graph:
        """The graph of `graph_module`."""
        return self.graph_module.graph

    def placeholders(self) -> list[Node]:
        """All placeholders, in the order of `input_specs`."""
        return self.graph.find_nodes(op="placeholder")

    def user_inputs(self) -> Iterator[Node]:
        """The placeholders that a caller passes, in order."""
        for node, spec in zip(self.placeholders(), self.input_specs, strict=True):
            if spec.kind is InputKind.USER_INPUT:
                yield node

    def output_node(self) -> Node:
        """The one output node."""
        return self.graph.output_node()

    def mutated_inputs(self) -> dict[str, Node]:
        """Name of each placeholder that the program writes to -> the node of its new value."""
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

    def specs_by_name(self) -> dict[str, InputSpec]:
        """Name of each placeholder -> its spec."""
        return {node.name: spec for node, spec in zip(self.placeholders(), self.input_specs, strict=True)}

    def names_in_model(self) -> dict[str, str]:
        """Name of each placeholder that stands for a part of the model -> its fully qualified name there."""
        return {name: spec.target for name, spec in self.specs_by_name().items() if spec.target is not None}

    def fixed_constants(self) -> dict[str, torch.Tensor]:
        """The constants that the program does not write to: they have this value at every call."""
        mutated = self.mutated_inputs()
        return {name: value for name, value in self.constants.items() if name not in mutated}

    def erase_unused_bodies(self) -> None:
        """Drops bodies that no call runs any more."""
        named = {node.name for node in self.graph.find_nodes(op="get_attr")}
        self.bodies = {name: body for name, body in self.bodies.items() if name in named}

    def erase_unused_placeholders(self) -> None:
        """Drops constants that no node reads, with their placeholders and specs."""
        kept: list[InputSpec] = []
        mutated = self.mutated_inputs()
        for node, spec in zip(self.placeholders(), self.input_specs, strict=True):
            if spec.kind in CONSTANT_KINDS and not node.users and node.name not in mutated:
                self.constants.pop(node.name, None)
                self.graph.erase_node(node)
            else:
                kept.append(spec)
        self.input_specs = kept
