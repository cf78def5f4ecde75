# SPDX-License-Identifier: Apache-2.0
"""Builder of a blob's graph: maps nodes of a program to values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.common.node_values import Operand
from delegatec.backends.common.sizes import Sizes
from delegatec.backends.mlx.blob import write_blob
from delegatec.backends.mlx.building.node_values import NodeValues
from delegatec.backends.mlx.building.runtime_layer import RuntimeLayer
from delegatec.backends.mlx.building.sizes import SizeValues
from delegatec.backends.mlx.building.slots import Slots
from delegatec.backends.mlx.building.state import keep_state
from delegatec.backends.mlx.building.tables import graph_of
from delegatec.backends.mlx.building.values import Array, Chain, Float, Int, Operation, Scalar
from delegatec.backends.mlx.compile_spec import Settings
from delegatec.backends.mlx.dtypes import HALVES, TO_FORMAT
from delegatec.delegation.protocol.backend import NamedData, PreprocessResult
from delegatec.delegation.protocol.mapping import debug_map_of
from delegatec.delegation.protocol.view import PartitionView
from delegatec.diagnostics import DelegatecError
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import is_scalar, sizes_key

Size = int | torch.SymInt | Node


class GraphBuilder(NodeValues):
    """The graph of one partition under construction.

    Args:
        view: the partition.
        settings: the user's settings.
        lower: lowers the calls of a body.
        layers: calls of attention to caches that the runtime owns.

    Attributes:
        layers: as given.
    """

    def __init__(
        self,
        view: PartitionView,
        settings: Settings,
        lower: Callable[[GraphBuilder, Sequence[Node]], None],
        layers: Mapping[Node, RuntimeLayer] = MappingProxyType({}),
    ) -> None:
        super().__init__(view, settings)
        self.layers = layers
        self._lower = lower
        self._sources: dict[Array, Array] = {}  # converted value -> its operand
        self._sizes: Sizes[Int, Array] = Sizes(SizeValues(self.emit, self._tensors))
        self._state: dict[Array, Array] = {}  # buffer -> its new value

    # ---- values ------------------------------------------------------------------------------------------

    def input(self, node: Node) -> None:
        """Adds an input of the delegate; all inputs are added first."""
        value = node.meta["val"]
        if isinstance(value, torch.SymInt):
            scalar = Scalar()
            self._sizes.define(value, Int(scalar))
            self.draft.inputs.append(scalar)
            return
        self._values[node] = self.temporary(value.shape, value.dtype)
        self.draft.inputs.append(self._values[node])

    def output(self, node: Node) -> None:
        """Makes the value of a node an output of the delegate; the runtime converts it to its dtype."""
        array = self.of(node)
        self.draft.outputs.append(self._sources.get(array, array))

    def buffer(self, node: Node) -> None:
        """Adds a buffer that the delegate keeps, which is zero at first; all are added before operations."""
        value = node.meta["val"]
        self._values[node] = self.temporary(value.shape, value.dtype)
        self.draft.buffers.append(self._values[node])

    def store(self, buffer: Node, new: Node) -> None:
        """Sets the new value of a buffer, after all operations."""
        self._state[self._values[buffer]] = self.of(new)

    def operand(self, operand: Operand, dtype: torch.dtype) -> Array:
        """See `TypedValues.operand`; a size is filled in."""
        if isinstance(operand, Node) and is_scalar(operand):
            return self.filled(operand.meta["val"], dtype)
        return super().operand(operand, dtype)

    def filled(self, size: int | torch.SymInt, dtype: torch.dtype) -> Array:
        """Returns a size as a tensor of rank 0; it is exact up to 2^24."""
        if not isinstance(size, torch.SymInt):
            return self.scalar(size, dtype)

        def make() -> Array:
            out = self.temporary((), dtype)
            value = Float(self._sizes.of(size).value)
            self.emit("Full", out=out, shape=[], value=value, dtype=TO_FORMAT[dtype])
            return out

        return self.shared(("filled", size.node.expr, dtype), make)

    def dtype_of(self, value: Array) -> torch.dtype:
        """Returns the dtype of a value."""
        return value.dtype

    def _cast(self, value: Array, dtype: torch.dtype) -> Array:
        out = self.temporary(value.shape, dtype)
        self.emit("AsType", x=value, out=out, dtype=TO_FORMAT[dtype])
        self._sources[out] = value
        return out

    def _widens(self, narrow: torch.dtype, wide: torch.dtype) -> bool:
        kinds = (
            ({torch.float32}, HALVES),
            ({torch.int16, torch.int32, torch.int64}, {torch.int8, torch.uint8}),
        )
        if any(wide in above and narrow in below for above, below in kinds):
            return True
        return (narrow, wide) in _WIDENING

    def written(self, array: Array) -> Array:
        """Returns a value that a SliceUpdate or an IndexCopy may update: the runtime refuses constants."""
        if array not in self.draft.constants and array not in self.draft.prepared:
            return array
        return self._copied("IdCopy", array)

    def contiguous(self, array: Array) -> Array:
        """Returns a value whose elements are next to each other: a view may have strides."""
        if array in self.draft.inputs or array in self.draft.constants or sizes_key(array.shape) == (1,):
            return array
        return self._copied("Contiguous", array)

    def _copied(self, name: str, array: Array) -> Array:
        def make() -> Array:
            out = self.temporary(array.shape, array.dtype)
            self.emit(name, x=array, out=out)
            return out

        return self.shared((name, array), make)

    # ---- sizes -------------------------------------------------------------------------------------------

    def integer(self, size: Size) -> Int:
        """Returns an integer that may be dynamic."""
        value = size.meta["val"] if isinstance(size, Node) else size
        return self._sizes.of(value) if isinstance(value, torch.SymInt) else Int(int(value))

    def integers(self, sizes: Sequence[Size]) -> list[Int]:
        """Returns integers that may be dynamic."""
        return [self.integer(each) for each in sizes]

    def shape(self, sizes: Sequence[Size]) -> list[Int]:
        """Returns the shape of a Reshape. The runtime infers one size that would have to be computed."""
        values = [each.meta["val"] if isinstance(each, Node) else each for each in sizes]
        unknown = [
            dim
            for dim, size in enumerate(values)
            if isinstance(size, torch.SymInt) and not self._sizes.is_known(size)
        ] or [dim for dim, size in enumerate(values) if isinstance(size, torch.SymInt)]
        inferred = unknown[-1] if unknown else None
        return [Int(-1) if dim == inferred else self.integer(size) for dim, size in enumerate(values)]

    def _tensors(self) -> Iterator[tuple[torch.Tensor, Array]]:
        for node, array in self._values.items():
            if array not in self.draft.constants and isinstance(node.meta["val"], torch.Tensor):
                yield node.meta["val"], array

    # ---- operations --------------------------------------------------------------------------------------

    def emit(self, name: str, **fields: Any) -> None:
        """Appends a node of the format.

        Args:
            name: its member of the union of nodes.
            **fields: its fields. Operands are `Array`s, `Int`s and others of `building/values.py`.
        """
        self.draft.append(Operation(name, fields, self.current))

    @contextmanager
    def body(
        self, program: EdgeProgram, operands: Sequence[Array | Int]
    ) -> Iterator[tuple[Chain, list[Array]]]:
        """Lowers a body of control flow to a chain, which is open in the scope.

        Args:
            program: the body.
            operands: its operands, which have the dtypes of the call's.

        Yields:
            The chain, and the results of the body.
        """
        call, sizes = self.current, self._sizes
        body = PartitionView.of_program(program, self.view)
        with self.inside(body), self.draft.chain() as chain:
            self._sizes = sizes.inner()
            for node, operand in zip(body.inputs, operands, strict=True):
                value = node.meta["val"]
                if isinstance(operand, Array):
                    self._values[node] = self.converted(operand, value.dtype)
                elif isinstance(value, torch.SymInt):
                    self._sizes.define(value, operand)
            self._lower(self, body.nodes)
            self.current = call
            yield chain, [self.of(each) for each in body.outputs]
        self._sizes = sizes

    def finished(self) -> PreprocessResult:
        """Returns the blob, its constants, and debug information of the graph without dead code.

        Raises:
            DelegatecError: DC406 for each constant that is out of float16's range.
        """
        draft = self.draft
        keep_state(draft, self._state)
        draft.drop_dead_code()
        problems = self._constants.problems(draft.constants)
        if problems:
            raise DelegatecError(problems)
        slots = Slots(draft)
        constants = draft.constants.values()
        return PreprocessResult(
            write_blob(graph_of(draft, slots)),
            debug_map_of(
                [] if operation.origin is None else [operation.origin]
                for chain in draft.walk()
                for operation in chain.operations
            ),
            {each.key: NamedData(each.data) for each in constants if each.data is not None},
            {slots.of(array): each.origin for array, each in draft.constants.items() if each.origin},
        )


def is_size(value: Any) -> bool:
    """Whether an argument is a number that may be dynamic."""
    return isinstance(value, int) or (isinstance(value, Node) and is_scalar(value))


_WIDENING: Final = {(torch.int16, torch.int32), (torch.int16, torch.int64), (torch.int32, torch.int64)}
