# SPDX-License-Identifier: Apache-2.0
"""Builder of a blob's graph, some values of which are int8 instead of floats."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager

import torch
from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import DataType
from torch.fx import Node

from delegatec.backends.common.arranged import Arrange
from delegatec.backends.common.node_values import Number
from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder, Size
from delegatec.backends.xnnpack.compile_spec import Settings
from delegatec.backends.xnnpack.quantized.fits import fits_choice
from delegatec.backends.xnnpack.quantized.plan import operand_scale, plan, scale_of_scalar
from delegatec.delegation.protocol.parts import tensor_part
from delegatec.delegation.protocol.view import PartitionView
from delegatec.edge.arguments import dtype_of
from delegatec.edge.quantization.constant import SHIFT, quantized_constant
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE
from delegatec.edge.quantization.scale import Quantization


class QuantizedBuilder(GraphBuilder):
    """A `GraphBuilder` that keeps the values of a plan quantized.

    While a node of the plan is lowered, its operands are quantized, and so is what its row emits. Other nodes
    get floats: a quantized value is dequantized once for all of them.

    Args:
        view: the partition.
        settings: the user's settings.

    Attributes:
        plan: the values that are kept quantized.
    """

    def __init__(self, view: PartitionView, settings: Settings) -> None:
        super().__init__(view, settings)
        self.plan = plan(view.nodes, self.constant_value)
        self._scales: dict[int, Quantization] = {}

    # ---- nodes of the program ----------------------------------------------------------------------------

    def input(self, node: Node) -> None:
        """See `GraphBuilder.input`. int8 and uint8 have the scale of the calls that dequantize them."""
        scale = self.plan.get(node)
        if scale is None:
            super().input(node)
            return
        id = self._boundary(node, scale)
        self.draft.inputs.append(id)
        self.alias(node, id if id in self._scales else self._converted(id, scale))

    def output(self, node: Node) -> None:
        """See `GraphBuilder.output`."""
        scale = self.plan.get(node)
        if dtype_of(node).is_floating_point or scale is None:
            super().output(node)
            return
        id = super().of(node)
        if self.draft.is_taken(id) or dtype_of(node) == torch.uint8:
            id = self.convert(id, self._boundary(node, scale))
        self.draft.outputs.append(id)

    def _boundary(self, node: Node, scale: Quantization) -> int:
        """Adds an input or output of int8 or uint8."""
        shape = node.meta["val"].shape
        if dtype_of(node) == torch.int8:
            return self.quantized_value(shape, scale, self._float_dtype(node))
        table = schema.ScaleOfTensorT(scale.scale, scale.zero_point + SHIFT)
        return self.value(DataType.UINT8, shape, self._float_dtype(node), table)

    def _float_dtype(self, quantized: Node) -> torch.dtype:
        """Returns the dtype of the floats that an input or output represents."""
        dtypes = (dtype_of(user) for user in quantized.users if user.target is DEQUANTIZE)
        return next(dtypes, self.bool_dtype)

    def of(self, node: Node) -> int:
        """See `GraphBuilder.of`. The value is quantized if those of the current node are, and else float."""
        scale = self._scale()
        if scale is None:
            return self._dequantized(self.stored(node), node)
        operand = operand_scale(node, self.plan, self.constant_value)
        assert self.current is not None and operand is not None
        is_joined = self.current.target is torch.ops.aten.cat.default
        if node not in self.plan:
            return (
                self._joined_constant(node, scale) if is_joined else self._quantized_constant(node, operand)
            )
        return self._rescaled(self.stored(node), scale) if is_joined else self.stored(node)

    def _scale(self) -> Quantization | None:
        """Returns the scale of the current node, if it is kept quantized."""
        return None if self.current is None else self.plan.get(self.current)

    def type_of(self, id: int) -> tuple[torch.dtype, tuple[Size, ...]]:
        """See `GraphBuilder.type_of`. Quantized values represent floats of the current node's dtype."""
        dtype, shape = super().type_of(id)
        if self.current is not None and id in self._scales and self._scale() is not None:
            value = self.current.meta["val"]
            dtype = (value if isinstance(value, torch.Tensor) else value[0]).dtype
        return dtype, shape

    def scale_of(self, node: Node) -> Quantization | None:
        """Returns the scale of a value that is kept quantized."""
        return self.plan.get(node)

    def named(self, id: int, origin: Node) -> int:
        """Returns a constant and records the placeholder from which it comes, for drawings."""
        self._names[id] = origin.name
        return id

    def stored(self, node: Node) -> int:
        """Returns the id of a value in the form in which it is kept."""
        found = quantized_constant(node, self.constant_value)
        if found is None:
            return super().of(node)
        return self.constant(found.dequantized(), dtype_of(node), found.source, form=node)

    def arranged(
        self, node: Node, form: Hashable, arrange: Arrange, shape: Sequence[int], is_wide: bool = False
    ) -> int:
        """See `GraphBuilder.arranged`. A quantized weight is dequantized."""
        found = quantized_constant(node, self.constant_value)
        if found is None:
            return super().arranged(node, form, arrange, shape, is_wide)
        floats, dtype = found.dequantized(), dtype_of(node)
        key = ("floats", node, form, dtype, is_wide)
        return self.shared(key, lambda: self._constant(floats, dtype, found.source, arrange, shape, is_wide))

    # ---- quantized values ------------------------------------------------------------------------------

    def quantized_value(
        self, shape: Sequence[Size], scale: Quantization, dtype: torch.dtype, constant_id: int = 0
    ) -> int:
        """Adds an int8 value.

        Args:
            shape: its shape.
            scale: its scale.
            dtype: of the floats that the quantized values represent.
            constant_id: its bytes, from `Draft.constant`, if it is a constant.
        """
        table = schema.ScaleOfTensorT(scale.scale, scale.zero_point)
        id = self.value(DataType.INT8, shape, dtype, table, constant_id)
        self._scales[id] = scale
        return id

    def temporary(self, shape: Sequence[Size], dtype: torch.dtype) -> int:
        """See `GraphBuilder.temporary`."""
        scale = self._scale()
        return super().temporary(shape, dtype) if scale is None else self.quantized_value(shape, scale, dtype)

    def like(self, id: int, shape: Sequence[Size]) -> int:
        """See `GraphBuilder.like`. The value is quantized if the other one is, in its scale."""
        dtype, scale = self.dtype_of(id), self._scales.get(id)
        return super().temporary(shape, dtype) if scale is None else self.quantized_value(shape, scale, dtype)

    def scalar(self, scalar: Number, dtype: torch.dtype) -> int:
        """See `GraphBuilder.scalar`."""
        scale = None if self._scale() is None else scale_of_scalar(float(scalar))
        if scale is None:
            return super().scalar(scalar, dtype)
        return self.shared(
            ("scalar", repr(scalar), dtype), lambda: self._quantized_scalar(scalar, scale, dtype, ())
        )

    def _quantized_scalar(
        self, scalar: Number, scale: Quantization, dtype: torch.dtype, shape: Sequence[int]
    ) -> int:
        value = torch.full(tuple(shape), round(scale.exactly(float(scalar))), dtype=torch.int8)
        return self.quantized_value(shape, scale, dtype, self.draft.constant(tensor_part(value)))

    def _quantized_constant(self, node: Node, scale: Quantization) -> int:
        scalar = self.constant_value(node)
        if scalar is not None:
            dtype = dtype_of(node)
            return self.shared(
                ("scalar", node), lambda: self._quantized_scalar(float(scalar), scale, dtype, scalar.shape)
            )
        found = quantized_constant(node, self.constant_value)
        assert found is not None

        def make() -> int:
            data = self.draft.constant(tensor_part(found.values))
            return self.named(
                self.quantized_value(found.values.shape, scale, dtype_of(node), data), found.source
            )

        return self.shared(("quantized", found.source, scale), make)

    def _joined_constant(self, node: Node, scale: Quantization) -> int:
        """Returns a constant in the scale of the values with which it is concatenated."""
        values, found = self.constant_value(node), quantized_constant(node, self.constant_value)
        if values is None:
            assert found is not None
            values = found.dequantized()
        floats = values.detach().to(torch.float32)
        rounded = QUANTIZE(floats, *scale.arguments)

        def make() -> int:
            data = self.draft.constant(tensor_part(rounded))
            id = self.quantized_value(rounded.shape, scale, dtype_of(node), data)
            return self.named(id, node if found is None else found.source)

        return self.shared(("joined", node, scale), make)

    def _dequantized(self, id: int, node: Node) -> int:
        """Returns the value of a node as floats."""
        if id not in self._scales:
            return id
        dtype = dtype_of(node)
        while node.target is not DEQUANTIZE:
            node = next(each for each in node.all_input_nodes if each in self.plan)

        def make() -> int:
            with self.at(node):
                return self.convert(id, super(QuantizedBuilder, self).temporary(self.shape_of(id), dtype))

        return self.shared(("floats", id, dtype), make)

    @contextmanager
    def at(self, node: Node) -> Iterator[None]:
        """Makes a node the origin of new operations."""
        before, self.current = self.current, node
        try:
            yield
        finally:
            self.current = before

    def quantized(self, node: Node, scale: Quantization) -> int:
        """Returns a value quantized in a scale."""
        id = self.stored(node)
        kept = self._scales.get(id)
        if kept not in (None, scale) and not fits_choice([kept], scale):
            id = self._dequantized(id, node)
        return self._rescaled(id, scale)

    def _rescaled(self, id: int, scale: Quantization) -> int:
        return id if self._scales.get(id) == scale else self._converted(id, scale)

    def _converted(self, id: int, scale: Quantization) -> int:
        def make() -> int:
            return self.convert(id, self.quantized_value(self.shape_of(id), scale, self.dtype_of(id)))

        return self.shared(("quantized", id, scale), make)
