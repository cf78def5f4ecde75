# SPDX-License-Identifier: Apache-2.0
"""Builder of a TOSA graph: maps nodes of a private program to values and operators."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from delegatec_schemas.tosa_graph import DType
from torch.fx import Node

from delegatec.backends.arm.building.constants import element
from delegatec.backends.arm.building.node_values import NodeValues
from delegatec.backends.arm.building.operation import Operation, Value
from delegatec.backends.arm.dtypes import STORED, TO_TOSA
from delegatec.backends.arm.settings import Settings
from delegatec.backends.common.node_values import Number
from delegatec.delegation.protocol.view import PartitionView
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import shape_of

MAIN: Final = "main"
"""The name of the region and of the block that tools run."""


class GraphBuilder(NodeValues):
    """The graph of one partition under construction.

    Args:
        settings: the user's settings.
        view: the partition; None to try single nodes, whose operands are values without a definition.
        outer: the graph that runs this one, if it is the body of control flow. Names are unique in both.
        facts: on the operands of a node that is tried.

    Attributes:
        current: the node being lowered, if any.
        settings: as given.
        operations: the operators so far, without constants.
        origins: for each operator, the nodes that it computes.
        inputs: of the graph, in order.
        outputs: of the graph, in order.
        bodies: name of a region -> the graph of a body, which is built after this one.
        passed: how many of the last inputs are also outputs: the operands of a loop that do not change.
    """

    def __init__(
        self,
        settings: Settings,
        view: PartitionView | None = None,
        outer: GraphBuilder | None = None,
        facts: Facts | None = None,
    ) -> None:
        super().__init__(view, outer, facts)
        self.current: Node | None = None
        self.settings = settings
        self.operations: list[Operation] = []
        self.origins: list[list[Node]] = []
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.bodies: dict[str, GraphBuilder] = {}
        self.passed = 0

    def walk(self) -> Iterator[GraphBuilder]:
        """Yields this graph and the graphs of its bodies, recursively."""
        yield self
        for body in self.bodies.values():
            yield from body.walk()

    # ---- values ------------------------------------------------------------------------------------------

    def transposed(self, node: Node, perms: Sequence[int]) -> Value:
        """Returns the value of a node with permuted dimensions; a constant is stored that way."""
        if list(perms) == sorted(perms):
            return self.of(node)
        if self.is_constant(node):
            return self.arranged(node, lambda tensor: tensor.permute(*perms), *perms)
        return self.permuted(self.of(node), perms)

    def input(self, node: Node) -> None:
        """Adds an input of the delegate."""
        value = node.meta["val"]
        self._values[node] = Value(self._name(node.name), TO_TOSA[value.dtype], tuple(value.shape))
        self.inputs.append(self._values[node])

    def output(self, node: Node) -> None:
        """Makes the value of a node an output of the delegate: the result of an operator, once."""
        value = self.of(node)
        if value.is_constant or value in self.inputs or value in self.outputs:
            value = self._emit("IDENTITY", [value], value.dtype, value.shape, {})
        self.outputs.append(value)

    # ---- operators ---------------------------------------------------------------------------------------

    def emit(
        self, name: str, *inputs: Value, dtype: int | None = None, shape: Sequence[int], **attributes: Any
    ) -> Value:
        """Appends an operator with one result; equal calls are shared.

        Args:
            name: of the operator in TOSA.
            *inputs: its operands.
            dtype: type of its result in TOSA, by default that of the first operand.
            shape: of its result.
            **attributes: of the operator, as the schema names and stores them.

        Returns:
            Its result.
        """
        dtype = inputs[0].dtype if dtype is None else dtype
        key = (name, *inputs, dtype, tuple(shape), repr(sorted(attributes.items())))
        if key not in self._shared:
            self._shared[key] = self._emit(name, inputs, dtype, shape, attributes)
        elif self.current is not None:
            self._also_computes(self._shared[key])
        return self._shared[key]

    def in_blocks(self, value: Value, dtype: int, block: int) -> tuple[Value, Value]:
        """Returns the elements of a value in a type, and their scales, one for a block."""
        key = ("blocks", value, dtype)
        if key not in self._shared:
            result = self._emit("CAST_TO_BLOCK_SCALED", [value], dtype, value.shape, {"block_size": block})
            scales = Value(
                self._name("scales"), DType.FP8UE8M0, (*value.shape[:-1], value.shape[-1] // block)
            )
            self.operations[-1] = replace(self.operations[-1], outputs=(result, scales))
            self._shared[key], self._shared[("scales", *key)] = result, scales
        else:
            self._also_computes(self._shared[key])
        return self._shared[key], self._shared[("scales", *key)]

    def _emit(
        self, name: str, inputs: Sequence[Value], dtype: int, shape: Sequence[int], attributes: Any
    ) -> Value:
        (result,) = self._append(name, inputs, [(dtype, shape)], attributes)
        return result

    def _append(
        self,
        name: str,
        inputs: Sequence[Value],
        results: Sequence[tuple[int, Sequence[int]]],
        attributes: Any,
    ) -> tuple[Value, ...]:
        wanted = name.lower() if self.current is None else self.current.name
        values = tuple(Value(self._name(wanted), dtype, tuple(shape)) for dtype, shape in results)
        self.operations.append(Operation(name, tuple(inputs), values, attributes))
        self.origins.append([] if self.current is None else [self.current])
        return values

    def run(self, name: str, *inputs: Value, results: Sequence[Value], **bodies: str) -> tuple[Value, ...]:
        """Appends an operator of control flow.

        Args:
            name: of the operator in TOSA.
            *inputs: its operands.
            results: values of the types and shapes of its results.
            **bodies: its attributes, names of regions.

        Returns:
            Its results.
        """
        return self._append(name, inputs, [(each.dtype, each.shape) for each in results], bodies)

    def body(self, attribute: Node, passed: int = 0) -> str:
        """Returns the name of the region of a body of control flow, see `bodies`.

        Args:
            attribute: its `get_attr` node.
            passed: see `passed`.
        """
        name = self._name(attribute.name if attribute.name != MAIN else f"{MAIN}_body")
        if self.view is not None:
            body = PartitionView.of_program(self.view.bodies[attribute], self.view)
            self.bodies[name] = GraphBuilder(self.settings, body, self)
            self.bodies[name].passed = passed
        return name

    def _also_computes(self, value: Value) -> None:
        for operation, nodes in zip(reversed(self.operations), reversed(self.origins), strict=True):
            if value in operation.outputs:
                if self.current is not None and self.current not in nodes:
                    nodes.append(self.current)
                return

    def result(self, node: Node, name: str, *inputs: Value, **attributes: Any) -> None:
        """Appends an operator that computes a node."""
        dtype = TO_TOSA[node.meta["val"].dtype]
        self.alias(node, self.emit(name, *inputs, dtype=dtype, shape=shape_of(node), **attributes))

    def reshaped(self, value: Value, shape: Sequence[int]) -> Value:
        """Returns a value in another shape of as many elements."""
        if tuple(shape) == value.shape:
            return value
        assert math.prod(shape) == math.prod(value.shape), f"{value} to {shape}"
        if value.elements is not None and value.dtype in STORED:
            return self.tensor(torch.tensor(value.elements, dtype=STORED[value.dtype]).reshape(tuple(shape)))
        # A placeholder that is tried may be an input: the profile FP alone has no RESHAPE of integers.
        if value.part is not None or (value.is_constant and self.settings.specification.integer):
            return self._reshaped_constant(value, shape)
        return self.emit("RESHAPE", value, self.shape(shape), shape=shape)

    def _reshaped_constant(self, value: Value, shape: Sequence[int]) -> Value:
        key = ("reshaped", value, *shape)
        if key not in self._shared:
            name = self._name(value.name)
            if value.name in self.names:
                self.names[name] = self.names[value.name]
            self._shared[key] = Value(name, value.dtype, tuple(shape), value.part, is_constant=True)
        return self._shared[key]

    def permuted(self, value: Value, perms: Sequence[int]) -> Value:
        """Returns a value with permuted dimensions."""
        if list(perms) == sorted(perms):
            return value
        return self.emit("TRANSPOSE", value, shape=[value.shape[dim] for dim in perms], perms=list(perms))

    def ranked(self, value: Value, rank: int) -> Value:
        """Returns a value with leading dimensions of size 1 up to a rank."""
        return self.reshaped(value, (1,) * (rank - len(value.shape)) + value.shape)

    def cast(self, value: Value, dtype: int) -> Value:
        """Returns a value in another type, as CAST converts it."""
        return value if value.dtype == dtype else self.emit("CAST", value, dtype=dtype, shape=value.shape)


def bound(scalar: Number, dtype: int) -> list[int]:
    """Returns a limit of CLAMP in its stored form: the bytes of one element."""
    return list(element(scalar, STORED[dtype]))
