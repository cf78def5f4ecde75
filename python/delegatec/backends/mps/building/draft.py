# SPDX-License-Identifier: Apache-2.0
"""A graph under construction in terms of the format: tables of values, constants and operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delegatec_schemas import mps_graph as schema
from torch.fx import Node

from delegatec.backends.common.liveness import live
from delegatec.backends.mps.blob import write_blob
from delegatec.backends.mps.checks import BITS
from delegatec.backends.mps.operands import operand_ids, result_ids
from delegatec.delegation import Part
from delegatec.delegation.protocol.mapping import DebugHandleMap, debug_map_of


@dataclass(frozen=True)
class Operation:
    """An operation of a draft.

    Attributes:
        node: the operation in the format.
        origin: the node of the program that it computes, if any.
    """

    node: schema.NodeT
    origin: Node | None


class Draft:
    """The tables of a blob under construction. Ids are consecutive.

    Lowerings may emit dead code, such as a result in float16 with only float32 uses: `drop_dead_code` removes
    it.

    Attributes:
        inputs: ids of the inputs.
        outputs: ids of the outputs.
        constants: id of each constant -> its bytes.
        operations: in execution order.
    """

    def __init__(self) -> None:
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.constants: dict[int, Part] = {}
        self.operations: list[Operation] = []
        self._values: list[schema.ValueT] = []

    def value(self, datatype: int, shape: Sequence[int]) -> int:
        """Adds a value of a type of `schema.DataType`."""
        self._values.append(schema.ValueT(datatype=datatype, numDims=len(shape), dims=list(shape)))
        return len(self._values) - 1

    def constant(self, datatype: int, shape: Sequence[int], data: Part) -> int:
        """Adds a value with its bytes."""
        id = self.value(datatype, shape)
        self.constants[id] = data
        return id

    def is_input_or_constant(self, id: int) -> bool:
        """Whether a value is an input or a constant."""
        return id in self.inputs or id in self.constants

    def unused_inputs(self, results: Sequence[int]) -> list[int]:
        """Returns the inputs that some values do not depend on in MPSGraph."""
        _, read = self._live(results)
        return [id for id in self.inputs if id not in read]

    def drop_dead_code(self) -> None:
        """Removes operations and constants that no output depends on.

        Their values keep their ids: the runtime ignores unreferenced values.
        """
        self.operations, read = self._live(self.outputs)
        self.constants = {id: data for id, data in self.constants.items() if id in read}

    def debug_map(self) -> DebugHandleMap:
        """Returns index of each operation -> handle of its origin."""
        return debug_map_of([] if each.origin is None else [each.origin] for each in self.operations)

    def blob(self) -> list[Part]:
        """Returns the blob of the current graph."""
        parts: list[Part] = []
        size = 0
        for id, data in self.constants.items():
            value = self._values[id]
            # Aligned to its elements: the runtime passes the address to MPSGraph unchanged.
            if gap := -size % (BITS[value.datatype] // 8 or 1):
                parts.append(bytes(gap))
            parts.append(data)
            value.constantBufferSize, value.segmentOffset = len(data), size + gap
            size += gap + len(data)
        graph = schema.GraphT(
            version="0",
            mpsNodes=[operation.node for operation in self.operations],
            mpsValues=self._values,
            inputIds=self.inputs,
            outputIds=self.outputs,
            constantIds=list(self.constants),
            graphType=schema.GraphType.MPS_GRAPH,
            constantSegment=schema.SegmentT(),
        )
        return write_blob(graph, parts)

    def _live(self, outputs: Sequence[int]) -> tuple[list[Operation], set[int]]:
        """Returns the operations that some values depend on, and the operands of these."""
        return live(
            self.operations,
            outputs,
            lambda operation: operand_ids(operation.node),
            lambda operation: result_ids(operation.node),
        )
