# SPDX-License-Identifier: Apache-2.0
"""Builder of a blob's graph: maps nodes of a program to values and calls."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import torch
from delegatec_schemas import vulkan_graph as schema
from torch.fx import Node

from delegatec.backends.common.node_values import NodeValues, Number
from delegatec.backends.vulkan.building.constants import Constants
from delegatec.backends.vulkan.building.sizes import sizes_of
from delegatec.backends.vulkan.compile_spec import Settings
from delegatec.backends.vulkan.dtypes import TO_FORMAT, stored
from delegatec.backends.vulkan.memory.assign import REPRESENTATION
from delegatec.backends.vulkan.memory.representation import Representation
from delegatec.backends.vulkan.memory.sharing import PREPACK
from delegatec.backends.vulkan.memory.sizes import largest_shape
from delegatec.delegation.protocol.view import PartitionView
from delegatec.edge.arguments import dtype_of
from delegatec.edge.symbols import is_dynamic, is_scalar


def is_narrowed_input(node: Node) -> bool:
    """Whether a node is the cast to float16 that alone uses a float32 placeholder."""
    if node.target is not torch.ops.aten._to_copy.default:
        return False
    (source,) = node.all_input_nodes
    dtypes = (dtype_of(source), dtype_of(node))
    users = [user for user in source.users if not is_scalar(user)]
    return source.op == "placeholder" and len(users) == 1 and dtypes == (torch.float32, torch.float16)


class GraphBuilder(NodeValues[int, Settings]):
    """The graph of one partition under construction.

    Args:
        view: the partition; its nodes have a representation.
        settings: the user's settings.

    Attributes:
        graph: the graph so far.
        constants: its constants.
        names: id of a constant -> name of the placeholder whose value it is.
        origins: for each call, the nodes that it computes.
    """

    def __init__(self, view: PartitionView, settings: Settings) -> None:
        super().__init__(view, settings)
        self.graph = schema.GraphT(
            version="0", chain=[], values=[], inputIds=[], outputIds=[], constants=[], shaders=[]
        )
        self.constants = Constants(view, settings)
        self.names: dict[int, str] = {}
        self.origins: list[list[Node]] = []
        self._sizes = sizes_of(self._add, self.call, self._tensors)

    # ---- values ------------------------------------------------------------------------------------------

    def is_built(self, node: Node) -> bool:
        """Whether a node already has a value."""
        return node in self._values

    def is_constant(self, node: Node) -> bool:
        """Whether a node is a constant."""
        return node in self.view.constants

    def input(self, node: Node) -> None:
        """Adds an input of the delegate; one that is only used in float16 is copied to that dtype."""
        id = self.tensor(node.meta["val"], node.meta[REPRESENTATION])
        users = [user for user in node.users if not is_scalar(user)]
        if len(users) == 1 and is_narrowed_input(users[0]):
            cast = users[0]
            id = self.tensor(cast.meta["val"], cast.meta[REPRESENTATION])
            self.table(id).stagingDataType = TO_FORMAT[torch.float32]
        self.graph.inputIds.append(id)
        self._values[node] = id

    def widens_in_copy(self, source: Node, cast: Node) -> bool:
        """Makes a cast from float16 to float32 part of the copy of an output, if it is one and nothing else.

        Returns:
            Whether it is.
        """
        if source.op == "placeholder" or (dtype_of(source), dtype_of(cast)) != (torch.float16, torch.float32):
            return False
        is_output = all(user.op == "output" for user in cast.users)
        if not is_output or source in self.view.outputs or self._values[source] in self.graph.inputIds:
            return False
        self.table(self._values[source]).stagingDataType = TO_FORMAT[torch.float32]
        return True

    def output(self, node: Node) -> None:
        """Makes the value of a node an output of the delegate."""
        self.graph.outputIds.append(self._values[node])

    def result(self, node: Node) -> int:
        """Adds the value that a node computes: a tensor, or a list of them."""
        value, representation = node.meta["val"], node.meta[REPRESENTATION]
        if isinstance(value, torch.Tensor):
            self._values[node] = self.tensor(value, representation)
            return self._values[node]
        ids = [self.tensor(each, one) for each, one in zip(value, representation, strict=True)]
        for user in node.users:
            self._values[user] = ids[user.args[1]]  # type: ignore[index]
        return self.list_of(ids)

    def tensor(self, value: torch.Tensor, representation: Representation) -> int:
        """Adds a tensor.

        Args:
            value: a tensor of its shape and its dtype in the model.
            representation: its memory on the device.
        """
        storage, layout = representation.value
        dtype = TO_FORMAT[stored(value.dtype)]
        table = schema.TensorT(dtype, list(largest_shape(value)), -1, -1, storage, layout, dtype)
        return self._add(schema.Content.Tensor, table)

    def _tensors(self) -> Iterator[tuple[torch.Tensor, int]]:
        for node, id in self._values.items():
            if not self.is_constant(node):
                yield node.meta["val"], id

    def table(self, id: int) -> Any:
        """Returns the content of a value."""
        return self.graph.values[id].content

    def _stored(self, node: Node, tensor: torch.Tensor) -> int:
        """See `NodeValues._stored`: the constant is not packed yet."""
        dtype = stored(node.meta["val"].dtype)
        index, data = self.constants.add(node, tensor, dtype)
        id = self._tensor_reference(index, data, dtype, tuple(tensor.shape))
        self.names[id] = node.name
        return id

    def _tensor_reference(
        self, index: int, data: schema.BytesT, dtype: torch.dtype, shape: Sequence[int]
    ) -> int:
        if index == len(self.graph.constants):
            self.graph.constants.append(data)
        kind = TO_FORMAT[dtype]
        table = schema.TensorT(kind, list(shape), index, -1, stagingDataType=kind)
        table.storageType, table.memoryLayout = schema.StorageType.DEFAULT, schema.MemoryLayout.DEFAULT
        return self._add(schema.Content.Tensor, table)

    def scalar_tensor(self, value: Number, dtype: torch.dtype) -> int:
        """Returns a constant tensor of one element, for operators that take no scalars; deduplicated."""

        def make() -> int:
            index, data = self.constants.add_scalar(value, stored(dtype), self.current)
            return self._tensor_reference(index, data, stored(dtype), [])

        return self.shared(("scalar_tensor", dtype, repr(value)), make)

    def packed(self, value: Number, dtype: torch.dtype, representation: Representation) -> int:
        """Returns a constant tensor of one element for operators that pack no operands; deduplicated."""

        def make() -> int:
            id = self.tensor(torch.empty((), dtype=dtype), representation)
            self.call(PREPACK, self.scalar_tensor(value, dtype), id)
            return id

        return self.shared(("packed", dtype, repr(value), representation), make)

    def fill(self, value: Number, dtype: torch.dtype) -> int:
        """Returns a scalar that fills a tensor; reports it if it is beyond the dtype."""
        if dtype == torch.bool:
            return self.scalar(float(bool(value)))
        return self.scalar(float(self.constants.representable(value, stored(dtype), self.current)))

    def null(self) -> int:
        """Returns an absent argument."""
        return self._share("null", schema.Content.Null, schema.NullT())

    def scalar(self, value: Number | str) -> int:
        """Returns a scalar or a string, deduplicated by its type and value."""
        key = (type(value), repr(value))
        if isinstance(value, bool):
            return self._share(key, schema.Content.Bool, schema.BoolT(value))
        if isinstance(value, int):
            return self._share(key, schema.Content.Int, schema.IntT(value))
        if isinstance(value, float):
            return self._share(key, schema.Content.Double, schema.DoubleT(value))
        return self._share(key, schema.Content.String, schema.StringT(value))

    def integers(self, values: Sequence[int]) -> int:
        """Returns a list of integers, deduplicated."""
        return self._share(("integers", *values), schema.Content.IntList, schema.IntListT(list(values)))

    def doubles(self, values: Sequence[float]) -> int:
        """Returns a list of floats, deduplicated."""
        key = ("doubles", *map(repr, values))
        return self._share(key, schema.Content.DoubleList, schema.DoubleListT(list(values)))

    def size(self, size: int | torch.SymInt) -> int:
        """Returns a size, which may be dynamic."""
        return self._sizes.of(size) if isinstance(size, torch.SymInt) else self.scalar(size)

    def sizes(self, sizes: Sequence[int | torch.SymInt]) -> int:
        """Returns a list of sizes, which may be dynamic."""
        return (
            self.list_of(list(map(self.size, sizes)))
            if is_dynamic(sizes)
            else self.integers(list(map(int, sizes)))
        )

    def list_of(self, ids: Sequence[int]) -> int:
        """Returns a list of values."""
        return self._share(("list", *ids), schema.Content.ValueList, schema.ValueListT(list(ids)))

    def _share(self, key: Hashable, kind: int, content: Any) -> int:
        return self.shared(key, lambda: self._add(kind, content))

    def _add(self, kind: int, content: Any) -> int:
        self.graph.values.append(schema.ValueT(kind, content))
        return len(self.graph.values) - 1

    # ---- calls -------------------------------------------------------------------------------------------

    def call(self, name: str, *args: int) -> None:
        """Appends a call of an operator of the runtime; the last argument is its result."""
        self.graph.chain.append(schema.OperatorCallT(len(self.origins), name, list(args)))
        self.origins.append([] if self.current is None else [self.current])

    def also_computes(self, node: Node) -> None:
        """Notes that the last call computes another node as well."""
        self.origins[-1].append(node)

    def argument(self, value: Any) -> int:
        """Returns an argument of a call: an operand, or a constant of a type that the format has."""
        if isinstance(value, Node):
            return self.size(value.meta["val"]) if is_scalar(value) else self.of(value)
        if value is None or isinstance(value, (torch.dtype, torch.layout, torch.device, torch.memory_format)):
            return self.null()
        if isinstance(value, (list, tuple)):
            if any(isinstance(each, Node) for each in value):
                return self.list_of(list(map(self.argument, value)))
            if any(isinstance(each, float) for each in value):
                return self.doubles(value)
            return self.integers(value)
        return self.scalar(value)
