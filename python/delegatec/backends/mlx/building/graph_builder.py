# SPDX-License-Identifier: Apache-2.0
"""Builder of a blob's graph: maps nodes of a program to values."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Final, TypeVar

import torch
from torch.fx import Node

from delegatec.backends.common.arranged import Arrange
from delegatec.backends.common.sizes import Sizes
from delegatec.backends.mlx.blob import write_blob
from delegatec.backends.mlx.building.constants import Constants, Number
from delegatec.backends.mlx.building.draft import Constant, Draft
from delegatec.backends.mlx.building.packing import Packing
from delegatec.backends.mlx.building.sizes import SizeValues
from delegatec.backends.mlx.building.slots import Slots
from delegatec.backends.mlx.building.state import keep_state
from delegatec.backends.mlx.building.tables import graph_of
from delegatec.backends.mlx.building.values import Array, Float, Int, Operation, Scalar
from delegatec.backends.mlx.compile_spec import Settings
from delegatec.backends.mlx.dtypes import HALVES, TO_FORMAT
from delegatec.delegation.protocol.backend import NamedData, PreprocessResult
from delegatec.delegation.protocol.mapping import debug_map_of
from delegatec.delegation.protocol.view import PartitionView
from delegatec.diagnostics import DelegatecError
from delegatec.edge.symbols import is_scalar

Operand = Node | Number
Shared = TypeVar("Shared")
Size = int | torch.SymInt | Node
Step = tuple[str, str, dict[str, Any]]
"""A node of the format, the name of its operand, and its other fields."""


class GraphBuilder:
    """The graph of one partition under construction.

    Args:
        view: the partition.
        settings: the user's settings.

    Attributes:
        current: the node being lowered, the origin of new operations, if any.
        settings: as given.
        draft: the graph so far.
        facts: analysis results for the program.
        program: the private program of the partition.
    """

    def __init__(self, view: PartitionView, settings: Settings) -> None:
        self.current: Node | None = None
        self.settings = settings
        self.draft = Draft()
        self.facts = view.facts
        self.program = view.program
        self._view = view
        self._constants = Constants(view, settings)
        self._arrays: dict[Node, Array] = {}
        self._shared: dict[Hashable, Any] = {}
        self._widened: dict[Array, Array] = {}  # a cast to a wider dtype of the same kind -> its operand
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
        self._arrays[node] = self.temporary(value.shape, value.dtype)
        self.draft.inputs.append(self._arrays[node])

    def output(self, node: Node) -> None:
        """Makes the value of a node an output of the delegate; the runtime converts it to its dtype."""
        array = self.of(node)
        self.draft.outputs.append(self._sources.get(array, array))

    def buffer(self, node: Node) -> None:
        """Adds a buffer that the delegate keeps, which is zero at first; all are added before operations."""
        value = node.meta["val"]
        self._arrays[node] = self.temporary(value.shape, value.dtype)
        self.draft.buffers.append(self._arrays[node])

    def store(self, buffer: Node, new: Node) -> None:
        """Sets the new value of a buffer, after all operations."""
        self._state[self._arrays[buffer]] = self.of(new)

    def of(self, node: Node) -> Array:
        """Returns the value of a node; the first use of a constant adds it."""
        if node not in self._arrays:
            tensor = self._view.constants[node]
            storage = ("weight", tensor.data_ptr(), node.meta["val"].dtype, tensor.shape, tensor.stride())
            make = self._constants.of_node
            self._arrays[node] = self.shared(storage, lambda: self._added(*make(node, self.current)))
        return self._arrays[node]

    def arranged(self, node: Node, form: Hashable, arrange: Arrange, shape: Sequence[int]) -> Array:
        """Returns a constant with its elements in another order.

        Args:
            node: its placeholder.
            form: names the order.
            arrange: see `Arrange`.
            shape: of the arranged elements.
        """

        def make() -> Array:
            array, constant = self._constants.of_node(node, self.current, arrange, shape)
            return self._added(array, constant)

        return self.shared(("arranged", node, form), make)

    def permuted_when_loaded(self, node: Node, perm: list[int]) -> Array:
        """Returns a constant with permuted dimensions: a view that is made when the delegate is loaded.

        The constant is stored as it is, and may be shared with other uses.
        """

        def make() -> Array:
            stored = self._added(*self._constants.of_node(node, self.current))
            shape = [stored.shape[dim] for dim in perm]
            return self._prepared(stored, shape, [("Transpose", "x", {"perm": perm})])

        tensor = self._view.constants[node]
        storage = (tensor.data_ptr(), node.meta["val"].dtype, tensor.shape, tensor.stride())
        return self.shared(("permuted", storage, tuple(perm)), make)

    def packed(self, node: Node, packing: Packing) -> Array:
        """Returns a constant matrix of integers, packed when it is written; once per node and packing."""

        def make() -> Array:
            return self._added(*self._constants.packed(node, packing))

        return self.shared(("packed", node, packing), make)

    def prepared(self, tensor: torch.Tensor, shape: Sequence[int], steps: Sequence[Step]) -> Array:
        """Returns what the runtime computes from a constant of the lowering when it loads the delegate.

        Args:
            tensor: the constant.
            shape: of the result.
            steps: its computation, in order.
        """
        return self._prepared(self.table(tensor), shape, steps)

    def _prepared(self, stored: Array, shape: Sequence[int], steps: Sequence[Step]) -> Array:
        result = self.temporary(shape, stored.dtype)
        self.draft.prepared[result] = (
            stored,
            [Operation(name, {operand: stored, "out": stored, **fields}) for name, operand, fields in steps],
        )
        return result

    def constant_value(self, node: Node) -> torch.Tensor | None:
        """Returns the tensor of a node if it is a constant; do not write to it.

        It is float32 if it is float32 in the model, although the node is float16 here.
        """
        return None if node.name in self._view.program.mutated_inputs() else self._view.constants.get(node)

    def result(self, node: Node, index: int | None = None) -> Array:
        """Adds the value that a node computes.

        Args:
            node: the node.
            index: the index of its result, if it has several; the `getitem` nodes of that result get it, too.
        """
        value = node.meta["val"] if index is None else node.meta["val"][index]
        array = self.temporary(value.shape, value.dtype)
        self.alias(node, array, index)
        return array

    def alias(self, node: Node, array: Array, index: int | None = None) -> None:
        """Maps a node to an existing value; `index` selects one of its results, if it has several."""
        nodes = [node] if index is None else [user for user in node.users if user.args[1] == index]
        self._arrays.update(dict.fromkeys(nodes, array))

    def temporary(self, shape: Sequence[Any], dtype: torch.dtype) -> Array:
        """Adds a value without a node."""
        assert dtype in TO_FORMAT, dtype
        return Array(dtype, tuple(shape))

    def table(self, tensor: torch.Tensor) -> Array:
        """Adds a constant of the lowering."""
        return self._added(*self._constants.of_tensor(tensor))

    def scalar(self, number: Number, dtype: torch.dtype) -> Array:
        """Returns a deduplicated constant of rank 0. Integers wrap around, as in ATen."""
        key = ("scalar", dtype, type(number), repr(number))
        return self.shared(key, lambda: self._added(*self._constants.scalar(number, dtype, self.current)))

    def operand(self, operand: Operand, dtype: torch.dtype) -> Array:
        """Returns an operand in a dtype: a number becomes a constant, a size or tensor is converted."""
        if not isinstance(operand, Node):
            return self.scalar(operand, dtype)
        if is_scalar(operand):
            return self.filled(operand.meta["val"], dtype)
        return self.converted(self.of(operand), dtype)

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

    def in_float32(self, node: Node) -> Array:
        """Returns a floating-point operand in float32; weights keep their precision."""
        tensor = self._view.constants.get(node)
        if tensor is None or node in self._arrays or tensor.dtype == node.meta["val"].dtype:
            return self.converted(self.of(node), torch.float32)
        return self.shared(("float32", node), lambda: self.table(tensor))

    def converted(self, array: Array, dtype: torch.dtype) -> Array:
        """Returns a value in a dtype: itself, or one shared conversion; to bool by comparison with zero."""
        if array.dtype == dtype:
            return array
        # The operand of a widening conversion.
        if array in self._widened and self._widened[array].dtype == dtype:
            return self._widened[array]

        def make() -> Array:
            out = self.temporary(array.shape, dtype)
            self.emit("AsType", x=array, out=out, dtype=TO_FORMAT[dtype])
            self._sources[out] = array
            if _widens(array.dtype, dtype):
                self._widened[out] = array
            return out

        return self.shared(("cast", array, dtype), make)

    def shared(self, key: Hashable, make: Callable[[], Shared]) -> Shared:
        """Returns values shared by lowerings, such as a table of indices; the first call makes it."""
        if key not in self._shared:
            self._shared[key] = make()
        found: Shared = self._shared[key]
        return found

    def _added(self, array: Array, constant: Constant) -> Array:
        self.draft.constants[array] = constant
        return array

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
        for node, array in self._arrays.items():
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


def _widens(narrow: torch.dtype, wide: torch.dtype) -> bool:
    """Whether a dtype represents all values of another one of the same kind."""
    kinds = ({torch.float32}, HALVES), ({torch.int16, torch.int32, torch.int64}, {torch.int8, torch.uint8})
    if any(wide in above and narrow in below for above, below in kinds):
        return True
    return (narrow, wide) in _WIDENING


_WIDENING: Final = {(torch.int16, torch.int32), (torch.int16, torch.int64), (torch.int32, torch.int64)}
