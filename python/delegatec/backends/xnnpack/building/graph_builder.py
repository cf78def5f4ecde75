# SPDX-License-Identifier: Apache-2.0
"""Builder of a blob's graph: maps nodes of a program to values and dtypes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch
from delegatec_schemas import xnnpack_graph as schema
from torch.fx import Node

from delegatec.backends.common.arranged import Arrange
from delegatec.backends.common.constants import beyond_float16, name_of
from delegatec.backends.common.node_values import NodeValues, Number
from delegatec.backends.common.settings import Overflow, Precision
from delegatec.backends.xnnpack.building.constants import converted_tensor, narrowed_scalar
from delegatec.backends.xnnpack.building.draft import Draft
from delegatec.backends.xnnpack.building.step import Step
from delegatec.backends.xnnpack.compile_spec import Settings
from delegatec.backends.xnnpack.dtypes import TO_FORMAT
from delegatec.delegation.protocol.backend import PreprocessResult
from delegatec.delegation.protocol.view import PartitionView, external_name
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.symbols import largest

Size = int | torch.SymInt


class GraphBuilder(NodeValues[int, Settings]):
    """The graph of one partition under construction, with its own, consecutive ids of values.

    Args:
        view: the partition.
        settings: the user's settings.

    Attributes:
        draft: the tables of the graph.
        facts: analysis results for the program.
        reshaped: result of each reshape -> its operand.
        transposed: result of each transpose -> its operand and the permutation.
        clamped: result of each clamp -> its bounds.
        stacks: value -> a dimension, and the values that it is a stack of along that dimension.
    """

    def __init__(self, view: PartitionView, settings: Settings) -> None:
        super().__init__(view, settings)
        self.draft = Draft()
        self.facts = view.facts
        self.reshaped: dict[int, int] = {}
        self.transposed: dict[int, tuple[int, tuple[int, ...]]] = {}
        self.clamped: dict[int, tuple[float, float]] = {}
        self.stacks: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._saturates = settings.overflow is Overflow.SATURATE
        self._problems: list[tuple[int | None, Diagnostic]] = []  # of a constant, or of a scalar in a table
        self._names: dict[int, str] = {}  # id of a constant -> the placeholder whose value it is
        self._zeros: set[int] = set()
        self._types: list[tuple[torch.dtype, tuple[Size, ...]]] = []

    # ---- nodes of the program ----------------------------------------------------------------------------

    @property
    def bool_dtype(self) -> torch.dtype:
        """The dtype of bools, which are zeros and ones."""
        return torch.float16 if self.settings.precision is Precision.FP16 else torch.float32

    def input(self, node: Node) -> None:
        """Adds an input of the delegate; all inputs are added first."""
        value = node.meta["val"]
        if value.dtype == torch.bool:
            source = self._bytes(value.shape)
            self.draft.inputs.append(source)
            self._values[node] = self.convert(source, self.temporary(value.shape, self.bool_dtype))
            return
        if value.dtype in TO_FORMAT:
            self._values[node] = self.temporary(value.shape, value.dtype)
        else:  # only its sizes are used: elements are read as another type of at most their width
            self._values[node] = self._opaque(value)
        self.draft.inputs.append(self._values[node])

    def _opaque(self, value: torch.Tensor) -> int:
        """Adds an input of a dtype that no operation computes with."""
        if value.element_size() == 1:
            return self._bytes(value.shape)
        if value.element_size() == 2:
            return self.temporary(value.shape, torch.float16)
        return self.value(schema.DataType.INT32, value.shape, torch.int32)

    def _bytes(self, shape: Sequence[Size]) -> int:
        """Adds bools of the program: bytes of value zero or one, which the runtime passes unchanged."""
        return self.value(schema.DataType.UINT8, shape, torch.uint8, schema.ScaleOfTensorT(1.0, 0))

    def output(self, node: Node) -> None:
        """Makes the value of a node an output of the delegate."""
        id = self.of(node)
        if node.meta["val"].dtype == torch.bool:
            id = self.convert(id, self._bytes(self.shape_of(id)))
        elif self.draft.is_taken(id):
            source, (dtype, shape) = id, self.type_of(id)
            if dtype in TO_FORMAT:
                id = self.temporary(shape, dtype)
            else:  # integers, with which no operation computes
                id = self.value(schema.DataType.INT32, shape, dtype)
            self.emit(schema.Operation.Copy, schema.UnaryT(source, id, 0))
        self.draft.outputs.append(id)

    def _stored(self, node: Node, tensor: torch.Tensor) -> int:
        """See `NodeValues._stored`; bools are zeros and ones."""
        dtype = node.meta["val"].dtype
        return self.constant(tensor, self.bool_dtype if dtype == torch.bool else dtype, node)

    # ---- values ------------------------------------------------------------------------------------------

    def type_of(self, id: int) -> tuple[torch.dtype, tuple[Size, ...]]:
        """Returns dtype and shape of a value."""
        return self._types[id]

    def shape_of(self, id: int) -> tuple[Size, ...]:
        """Returns the shape of a value."""
        return self._types[id][1]

    def dtype_of(self, id: int) -> torch.dtype:
        """Returns the dtype of a value."""
        return self.type_of(id)[0]

    def temporary(self, shape: Sequence[Size], dtype: torch.dtype) -> int:
        """Adds a value that an operation computes; the runtime computes its sizes."""
        return self.value(TO_FORMAT[dtype], shape, dtype)

    def like(self, id: int, shape: Sequence[Size]) -> int:
        """Adds a value that an operation computes, with the type of another value."""
        return self.temporary(shape, self.dtype_of(id))

    def value(
        self,
        data_type: int,
        shape: Sequence[Size],
        dtype: torch.dtype,
        quantization: Any = None,
        constant_id: int = 0,
    ) -> int:
        """Adds a value.

        Args:
            data_type: a type of `schema.DataType`.
            shape: its shape, in memory order. Of a dynamic shape, the upper bound is stored.
            dtype: of its elements, or of the floats that quantized elements represent.
            quantization: its scales, see `Draft.value`.
            constant_id: its bytes, from `Draft.constant`, if it is a constant.
        """
        self._types.append((dtype, tuple(shape)))
        stored = [largest(size) or 1 for size in shape]
        return self.draft.value(data_type, stored, quantization, constant_id)

    def constant(
        self, tensor: torch.Tensor, dtype: torch.dtype, origin: Node | None = None, form: Hashable = None
    ) -> int:
        """Adds a constant, once for each origin, form and dtype. Equal bytes are stored once.

        Args:
            tensor: its value; float32 becomes float16 while it is written.
            dtype: in which it is stored.
            origin: the placeholder from which it comes, for messages and drawings; None for a new one.
            form: how it differs from the placeholder's value, such as "transposed".
        """
        if origin is None:
            return self._constant(tensor, dtype, origin)
        return self.shared(("constant", origin, form, dtype), lambda: self._constant(tensor, dtype, origin))

    def arranged(
        self,
        node: Node,
        form: Hashable,
        arrange: Arrange,
        shape: Sequence[int],
        is_wide: bool = False,
    ) -> int:
        """Adds a constant with its elements in another order, in which they are written.

        Args:
            node: the constant.
            form: names the arrangement, see `constant`.
            arrange: permutes its dimensions, see `Arrange`.
            shape: the shape in which the permuted elements are stored.
            is_wide: whether float16 is stored as float32.
        """
        tensor, dtype = self.view.constants[node], node.meta["val"].dtype
        return self.shared(
            ("constant", node, form, dtype, is_wide),
            lambda: self._constant(tensor, dtype, node, arrange, shape, is_wide),
        )

    def _constant(
        self,
        tensor: torch.Tensor,
        dtype: torch.dtype,
        origin: Node | None,
        arrange: Arrange | None = None,
        shape: Sequence[int] | None = None,
        is_wide: bool = False,
    ) -> int:
        data, lost = converted_tensor(tensor, dtype, self._saturates, arrange, is_wide)
        shape = tensor.shape if shape is None else shape
        stored = torch.float32 if is_wide else dtype
        is_unchanged = origin is not None and arrange is None and dtype == stored == tensor.dtype
        name = external_name(origin, tensor) if origin is not None and is_unchanged else None
        index = self.draft.constant(data, name=name)
        id = self.value(TO_FORMAT[stored], shape, stored, constant_id=index)
        if origin is not None:
            self._names[id] = origin.name
        if tensor.numel() == 1 and not bool(tensor.to(stored)):
            self._zeros.add(id)
        if lost:
            what = "a constant" if origin is None else name_of(self.view.program, origin)
            self._problems.append((id, beyond_float16(f"{what} has {lost}", self.current)))
        return id

    def is_zero(self, id: int) -> bool:
        """Whether a value is a float constant of one element, which is zero as it is stored."""
        return id in self._zeros

    def scalar(self, number: Number, dtype: torch.dtype) -> int:
        """Returns a scalar constant; deduplicated."""
        stored = float(number) if dtype == torch.float32 else self.representable(number, dtype)
        tensor = torch.tensor(stored, dtype=dtype)
        return self.shared(("number", dtype, repr(stored)), lambda: self.constant(tensor, dtype))

    def representable(self, number: Number, dtype: torch.dtype) -> float:
        """Returns a scalar for a float32 field of an operation on a dtype; reports one out of range."""
        if dtype != torch.float16:
            return float(number)
        found, lost = narrowed_scalar(float(number), self._saturates)
        if lost:
            self._problems.append((None, beyond_float16(lost, self.current)))
        return found

    # ---- operations --------------------------------------------------------------------------------------

    def emit(self, operation: int, table: Any, limits: tuple[float, float] | None = None) -> None:
        """Appends an operation.

        Args:
            operation: its type, of `schema.Operation`.
            table: its operands and attributes.
            limits: the lower and the upper bound of its results.
        """
        bounds = None if limits is None else schema.LimitsT(*limits)
        node = schema.NodeT(operation, table, 0, bounds)
        self.draft.steps.append(Step(node, () if self.current is None else (self.current,)))

    def convert(self, id: int, out: int) -> int:
        """Emits a conversion of a value to the type and scale of another one; returns the latter."""
        self.emit(schema.Operation.Convert, schema.UnaryT(id, out, 0))
        return out

    def finished(self) -> PreprocessResult:
        """Returns the blob, its constants and debug information, without dead code.

        Raises:
            DelegatecError: DC406 for each constant that is out of float16's range.
        """
        self.draft.simplify()
        live = self.draft.constant_ids()
        problems = [each for id, each in self._problems if id is None or id in live]
        if problems:
            raise DelegatecError(problems)
        names = {id: name for id, name in self._names.items() if id in live}
        names.update((copy, names[id]) for copy, id in self.draft.copies.items() if id in names)
        return PreprocessResult(
            self.draft.blob(),
            self.draft.debug_map(),
            self.draft.named_data(),
            constant_names=names,
            inline=self.draft.has_inner_constants,
        )
