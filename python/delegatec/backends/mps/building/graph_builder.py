# SPDX-License-Identifier: Apache-2.0
"""Builder of a blob's graph: maps nodes of a program to values and dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from delegatec_schemas import mps_graph as schema
from torch.fx import Node

from delegatec.backends.common.constants import (
    FLOAT16_MAX,
    FLOAT32_MAX,
    Int4Bytes,
    beyond_float16,
    is_beyond_float16,
    name_of,
    nonzero_in_float16,
    to_float16,
)
from delegatec.backends.common.node_values import Number, TypedValues
from delegatec.backends.common.settings import Overflow, Precision
from delegatec.backends.mps.building.draft import Draft, Operation
from delegatec.backends.mps.compile_spec import Settings
from delegatec.backends.mps.dtypes import TO_FORMAT
from delegatec.delegation import Part
from delegatec.delegation.protocol.backend import PreprocessResult
from delegatec.delegation.protocol.parts import tensor_part
from delegatec.delegation.protocol.view import PartitionView
from delegatec.diagnostics import DelegatecError, Diagnostic


class GraphBuilder(TypedValues[int, Settings]):
    """The graph of one partition under construction, with its own, consecutive ids of values."""

    def __init__(self, view: PartitionView, settings: Settings) -> None:
        super().__init__(view, settings)
        # constants that cannot be converted, by id; None for a scalar in an operation
        self._problems: list[tuple[int | None, Diagnostic]] = []
        self._saturates = settings.overflow is Overflow.SATURATE
        self._draft = Draft()
        self._names: dict[int, str] = {}  # id of a constant -> the placeholder whose value it is
        self._types: list[tuple[torch.dtype, tuple[int, ...]]] = []

    # ---- values ------------------------------------------------------------------------------------------

    def is_halved(self, dtype: torch.dtype) -> bool:
        """Whether values of a dtype may be float32 in the model and float16 here."""
        return dtype == torch.float16 and self.settings.precision is Precision.FP16

    def input(self, node: Node) -> None:
        """Adds an input of the delegate; all inputs are added first."""
        value = node.meta["val"]
        id = self.temporary(value.shape, value.dtype)
        self._draft.inputs.append(id)
        self._values[node] = id

    def output(self, node: Node) -> None:
        """Makes the value of a node an output of the delegate."""
        id = self._values[node]
        dtype, shape = self._types[id]
        if self._draft.is_input_or_constant(id) or id in self._draft.outputs:
            out = self.temporary(shape, dtype)
            view = schema.ViewT(input1Id=id, outputId=out, numDims=len(shape), shape=list(shape))
            self.emit(schema.Operation.View, view)
        else:
            out = id
        self._draft.outputs.append(out)

    def computes(self, node: Node) -> bool:
        """Whether a node is one of the partition's, which has been lowered."""
        return node in self._values and node not in self.view.inputs and node not in self.view.constants

    def _weight(self, node: Node, tensor: torch.Tensor, dtype: torch.dtype) -> int:
        id = self.constant(tensor, lambda: self.name_of(node), dtype)
        self._names[id] = node.name
        return id

    def temporary(self, shape: Sequence[int], dtype: torch.dtype) -> int:
        """Adds a value without a node."""
        self._types.append((dtype, tuple(shape)))
        return self._draft.value(TO_FORMAT[dtype], tuple(shape))

    def constant(
        self, tensor: torch.Tensor, name: Callable[[], str], dtype: torch.dtype | None = None
    ) -> int:
        """Adds a constant.

        Args:
            tensor: its value.
            name: returns its name, for the error if it cannot be converted.
            dtype: of the constant; by default its own. float32 becomes float16 while it is written.
        """
        dtype = dtype or tensor.dtype
        data: Part
        lost = ""
        if dtype == tensor.dtype or tensor.dtype != torch.float32:
            data = tensor_part(tensor.to(dtype))
        else:
            if tensor.numel() == 1:
                tensor = torch.full_like(tensor, nonzero_in_float16(tensor.item()))
            data, lost = to_float16(tensor, self._saturates)
        id = self._constant(TO_FORMAT[dtype], tensor, data, dtype)
        if lost:
            self._report(f"{name()} has {lost}", id)
        return id

    def packed(self, node: Node) -> int:
        """Adds an int8 constant as int4, once per node: all in [-8, 8), an even number per row."""

        def make() -> int:
            tensor = self.view.constants[node]
            id = self._constant(schema.DataType.INT4, tensor, Int4Bytes(tensor), tensor.dtype)
            self._names[id] = node.name
            return id

        return self.shared(("int4", node), make)

    def _constant(self, datatype: int, tensor: torch.Tensor, data: Part, dtype: torch.dtype) -> int:
        self._types.append((dtype, tuple(tensor.shape)))
        return self._draft.constant(datatype, tensor.shape, data)

    def scalar(self, number: Number, dtype: torch.dtype) -> int:
        """Adds a deduplicated scalar constant. Integers wrap around, as in ATen.

        Its shape is [1], the runtime's form of rank 0; an operation on it and another value has the shape of
        the other.
        """
        stored = torch.float32 if self.is_halved(dtype) else dtype
        if stored == torch.float16:
            number = self.representable(number, dtype)
        tensor = torch.tensor([number], dtype=torch.float64 if isinstance(number, float) else None).to(stored)

        def make() -> int:
            id = self.constant(tensor, lambda: f"the scalar {number}", dtype)
            self._types[id] = (dtype, ())
            return id

        return self.shared(("scalar", dtype, repr(tensor.item())), make)

    def _report(self, message: str, constant: int | None = None) -> None:
        self._problems.append((constant, beyond_float16(message, self.current)))

    def representable(self, scalar: Number, dtype: torch.dtype) -> float:
        """Checks the range of a scalar for a float32 field of an operation on a dtype."""
        if dtype != torch.float16:
            return float(scalar)
        if is_beyond_float16(scalar):
            if abs(scalar) != FLOAT32_MAX and not self._saturates:
                self._report(f"the scalar {scalar} is beyond float16")
            return math.copysign(FLOAT16_MAX, scalar)
        # The runtime rounds a scalar that fits, once.
        return float(nonzero_in_float16(scalar) if self.is_halved(dtype) else scalar)

    def type_of(self, id: int) -> tuple[torch.dtype, tuple[int, ...]]:
        """Returns dtype and shape of a value."""
        return self._types[id]

    def dtype_of(self, value: int) -> torch.dtype:
        """Returns the dtype of a value."""
        return self._types[value][0]

    def _cast(self, value: int, dtype: torch.dtype) -> int:
        have, shape = self._types[value]
        out = self.temporary(shape, dtype)
        if dtype == torch.bool:
            zero = self.scalar(0, have)
            self.emit(schema.Operation.Ne, schema.BinaryT(input1Id=value, input2Id=zero, outputId=out))
        else:
            table = schema.CastT(input1Id=value, outputId=out, dtype=TO_FORMAT[dtype])
            self.emit(schema.Operation.Cast, table)
        return out

    def _widens(self, narrow: torch.dtype, wide: torch.dtype) -> bool:
        """See `TypedValues._widens`; nothing but a bool becomes one."""
        both_float = narrow.is_floating_point and wide.is_floating_point
        both_integer = not (
            narrow.is_floating_point or wide.is_floating_point or torch.bool in (narrow, wide)
        )
        return (both_float or both_integer) and narrow.itemsize < wide.itemsize

    # ---- operations --------------------------------------------------------------------------------------

    def emit(self, operation: int, table: Any, bounds: schema.BoundsT | None = None) -> None:
        """Appends an operation.

        Args:
            operation: its type, of `schema.Operation`.
            table: its operands.
            bounds: of Clamp.
        """
        node = schema.NodeT(mpsnodeUnionType=operation, mpsnodeUnion=table, minMax=bounds)
        self._draft.operations.append(Operation(node, self.current))

    def unused_inputs(self, results: Sequence[Node]) -> list[Node]:
        """Returns the inputs that no value of some nodes depends on."""
        unused = set(self._draft.unused_inputs([self.of(node) for node in results]))
        return [node for id, node in enumerate(self.view.inputs) if id in unused]

    def finished(self) -> PreprocessResult:
        """Returns the blob and debug information of the graph without dead code.

        Raises:
            DelegatecError: DC406 for each constant that is out of float16's range.
        """
        self._draft.drop_dead_code()
        problems = [each for id, each in self._problems if id is None or id in self._draft.constants]
        if problems:
            raise DelegatecError(problems)
        names = {id: name for id, name in self._names.items() if id in self._draft.constants}
        return PreprocessResult(self._draft.blob(), self._draft.debug_map(), constant_names=names)

    def name_of(self, constant: Node) -> str:
        """Returns the name of a constant in the model, for messages."""
        return name_of(self.view.program, constant)
