# SPDX-License-Identifier: Apache-2.0
"""A graph under construction in terms of the format: tables of values, constants and operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

from delegatec_schemas import xnnpack_graph as schema

from delegatec.backends.common.liveness import live
from delegatec.backends.xnnpack.blob import write_blob
from delegatec.backends.xnnpack.building.keys import (
    StoredConstant,
    inner_constants,
    layer_key,
    layer_text,
)
from delegatec.backends.xnnpack.building.limits import fuse_clamps
from delegatec.backends.xnnpack.building.lookup_chains import split_chains
from delegatec.backends.xnnpack.building.step import Step
from delegatec.backends.xnnpack.building.table_ranks import keep_ranks
from delegatec.backends.xnnpack.building.unread import drop_positions
from delegatec.backends.xnnpack.checking.values import INPUT, NAMED, OUTPUT
from delegatec.backends.xnnpack.flags import TRANSPOSED
from delegatec.backends.xnnpack.operands import (
    BIAS,
    FILTER,
    NO_VALUE,
    operand_ids,
    packed_fields,
    result_ids,
    unpacked_fields,
)
from delegatec.backends.xnnpack.values import tensor_of
from delegatec.delegation import Part
from delegatec.delegation.protocol.backend import NamedData
from delegatec.delegation.protocol.mapping import DebugHandleMap, debug_map_of
from delegatec.delegation.protocol.parts import chunks, digest

_QUANTIZATIONS: Final = {
    schema.ScalesOfChannelsT: schema.Quantization.ScalesOfChannels,
    schema.ScaleOfTensorT: schema.Quantization.ScaleOfTensor,
    schema.ScalesOfRowsT: schema.Quantization.ScalesOfRows,
    schema.ScalesOfGroupsT: schema.Quantization.ScalesOfGroups,
}


class Draft:
    """The tables of a blob under construction. Ids are consecutive.

    Lowerings may emit dead code: `simplify` removes it. Ids of values do not change.

    Attributes:
        inputs: ids of the inputs.
        outputs: ids of the outputs.
        steps: the operations, in execution order.
        copies: value that `simplify` adds -> the constant whose bytes it has.
    """

    def __init__(self) -> None:
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.steps: list[Step] = []
        self.copies: dict[int, int] = {}
        self._values: list[schema.ValueT] = []
        self._data: dict[str, NamedData] = {}
        self._indices: dict[StoredConstant, int] = {}  # index of each constant; 0 means "no constant"
        self._readers: dict[int, str] = {}  # filter or bias -> the layer on which its key depends
        self._external: set[str] = set()

    def value(
        self, data_type: int, shape: Sequence[int], quantization: Any = None, constant_id: int = 0
    ) -> int:
        """Adds a value.

        Args:
            data_type: a type of `schema.DataType`.
            shape: its dimensions, in memory order.
            quantization: a table of the union `schema.Quantization`; None if it is not quantized.
            constant_id: its bytes, from `constant`, if it is a constant.
        """
        id = len(self._values)
        tensor = schema.TensorT(data_type, len(shape), list(shape), constant_id, NO_VALUE, 0, id)
        if quantization is None:
            value = schema.ValueT(schema.Content.Tensor, tensor)
        else:
            kind = _QUANTIZATIONS[type(quantization)]
            content = schema.QuantizedTensorT(tensor, kind, quantization)
            value = schema.ValueT(schema.Content.QuantizedTensor, content)
        self._values.append(value)
        return id

    def constant(self, data: Part, alignment: int = 16, name: str | None = None) -> int:
        """Adds bytes; returns their index.

        Args:
            data: the bytes, stored once for all equal ones of the program.
            alignment: in bytes.
            name: that of a weight in the program's `.ptd`, where they are.
        """
        key = name or digest(data)
        self._data.setdefault(key, NamedData(data, alignment))
        if name:
            self._external.add(name)
        return self._indices.setdefault(StoredConstant(key, key), len(self._indices) + 1)

    def tensor(self, id: int) -> schema.TensorT:
        """Returns the tensor of a value."""
        return tensor_of(self._values[id])

    def is_constant(self, id: int) -> bool:
        """Whether a value is a constant."""
        return bool(self.tensor(id).constantId)

    def is_taken(self, id: int) -> bool:
        """Whether a value cannot become an output: it is an input, an output or a constant."""
        return id in self.inputs or id in self.outputs or self.is_constant(id)

    def constant_ids(self) -> set[int]:
        """Returns the ids of all constants."""
        return {tensor.id for tensor in map(tensor_of, self._values) if tensor.constantId}

    def simplify(self) -> None:
        """Fuses clamps, keeps ranks, splits long chains, and removes dead code.

        Constants are laid out by their consumers.
        """
        self.steps, used = self._live()
        self.steps = fuse_clamps(drop_positions(self.steps, used), self.outputs, self._have_one_scale)
        self.steps = keep_ranks(self.steps, self.tensor, self._like, self._twice)
        self.steps = split_chains(self.steps, self.inputs, self.outputs, self.tensor, self._like)
        self._separate()
        self.steps, used = self._live()
        used.update(self.inputs, (id for step in self.steps for id in result_ids(step.node)))
        self._values = [value for id, value in enumerate(self._values) if id in used]
        self._assign_indices()

    def _separate(self) -> None:
        """Gives each layer that packs a constant differently a separate value, and all other consumers one.

        The runtime packs filters and biases when it loads a layer, and finds packed ones by the keys of both.
        It then frees the data of those values, even if other operations read them.
        """
        keys = {index: stored.key for stored, index in self._indices.items()}
        own: dict[tuple[int, str], int] = {}
        taken: set[int] = set()

        def separate(node: Any, field: str, id: int, reader: str) -> int:
            if (id, reader) not in own:
                own[id, reader] = id if id not in taken else self._copy(id)
                taken.add(id)
            setattr(node.operation, field, own[id, reader])
            return own[id, reader]

        for step in self.steps:
            operation = step.node.operation
            if not (packed_fields(step.node) and self.is_constant(operation.filterId)):
                continue
            layer = layer_text(step.node, self._values, keys)
            key = keys[self.tensor(operation.filterId).constantId]
            filter = separate(step.node, FILTER, operation.filterId, layer)
            bias, reader = operation.biasId, BIAS
            if key not in self._external:
                self._readers[filter] = layer
            else:
                # The name of a weight in the .ptd tells neither bytes nor layer: the key of the bias does.
                reader = f"{layer} {self._content(key)}"
                bias = self._no_bias(step.node) if bias == NO_VALUE else bias
            if bias != NO_VALUE:
                self._readers[separate(step.node, BIAS, bias, reader)] = reader
        for step in self.steps:
            for field, id in unpacked_fields(step.node):
                if self.is_constant(id):
                    separate(step.node, field, id, "")

    def _no_bias(self, layer: schema.NodeT) -> int:
        """Adds the zeros that the runtime packs for a linear layer without a bias."""
        tensor = self.tensor(layer.operation.filterId)
        channels = int(tensor.dims[1 if layer.operation.flags & TRANSPOSED else 0])
        width = 4 if tensor.dataType == schema.DataType.FLOAT32 else 2
        return self.value(tensor.dataType, [channels], constant_id=self.constant(bytes(channels * width)))

    def _copy(self, id: int) -> int:
        copy = self._like(id)
        self.copies[copy] = id
        return copy

    def _like(self, id: int, dims: Sequence[int] | None = None) -> int:
        """Adds a value with the type of another, and with its shape or another one."""
        copy = len(self._values)
        self._values.append(deepcopy(self._values[id]))
        tensor = self.tensor(copy)
        tensor.id = copy
        if dims is not None:
            tensor.dims, tensor.numDims = [*dims], len(dims)
        return copy

    def _twice(self, id: int) -> int:
        """Adds a constant of two elements, each of which is that of another constant."""
        _, *ones = self.tensor(id).dims
        stored = {index: each.key for each, index in self._indices.items()}
        element = b"".join(chunks(self._data[stored[self.tensor(id).constantId]].data))
        pair = self._like(id, [2, *ones])
        self.tensor(pair).constantId = self.constant(2 * element)
        return pair

    def _assign_indices(self) -> None:
        """Assigns indices to the constants in use, in the blob or as named data."""
        inner = {id for step in self.steps for _, id in unpacked_fields(step.node)}
        old = {index: stored for stored, index in self._indices.items()}
        new: dict[StoredConstant, int] = {}
        for id, owner, field in self._references():
            key = old[getattr(owner, field)].key
            name: str | None = key
            if id in inner:
                name = None
            elif field == "constantId" and id in self._readers:
                name = layer_key(self._content(key), self._readers[id])
            setattr(owner, field, new.setdefault(StoredConstant(key, name), len(new) + 1))
        self._indices = new

    def _content(self, key: str) -> str:
        """Returns the digest of a constant's bytes."""
        return digest(self._data[key].data) if key in self._external else key

    def _have_one_scale(self, first: int, second: int) -> bool:
        """Whether two values have the same quantization, or none."""
        scales = [getattr(self._values[id].content, "quantization", None) for id in (first, second)]
        parameters = [None if each is None else (each.scale, each.zeroPoint) for each in scales]
        return parameters[0] == parameters[1]

    def _live(self) -> tuple[list[Step], set[int]]:
        """Returns the operations that the outputs depend on, and their operands."""
        return live(
            self.steps, self.outputs, lambda step: operand_ids(step.node), lambda step: result_ids(step.node)
        )

    def _references(self) -> Iterator[tuple[int, Any, str]]:
        """Yields each value, table and field with the index of a constant."""
        for value in self._values:
            owners = [(tensor_of(value), "constantId")]
            if isinstance(value.content, schema.QuantizedTensorT):
                owners.append((value.content.quantization, "scalesConstantId"))
            yield from ((tensor_of(value).id, *each) for each in owners if getattr(*each, 0) > 0)

    def named_data(self) -> dict[str, NamedData]:
        """Returns key -> bytes of the constants outside of the blob, after `simplify`."""
        return {
            each.name: replace(self._data[each.key], is_separate=True)
            for each in self._indices
            if each.name is not None
        }

    @property
    def has_inner_constants(self) -> bool:
        """Whether the blob has constants, which are read at each run; after `simplify`."""
        return any(each.name is None for each in self._indices)

    def debug_map(self) -> DebugHandleMap:
        """Returns index of each operation -> handles of its origins."""
        return debug_map_of(step.origins for step in self.steps)

    def blob(self) -> list[Part]:
        """Returns the blob of the current graph."""
        externals = [*((id, INPUT) for id in self.inputs), *((id, OUTPUT) for id in self.outputs)]
        tensors = {tensor.id: tensor for tensor in map(tensor_of, self._values)}
        for position, (id, flag) in enumerate(externals):
            tensors[id].externalId, tensors[id].flags = position, flag
        for index, step in enumerate(self.steps):
            step.node.debugHandle = index
        offsets, inner = inner_constants(
            {each.key: self._data[each.key].data for each in self._indices if each.name is None}
        )
        data = [
            schema.BytesT(
                NAMED if each.name is not None else offsets[each.key],
                len(self._data[each.key].data),
                each.name,
            )
            for each in self._indices
        ]
        graph = schema.GraphT(
            version="0",
            nodes=[step.node for step in self.steps],
            values=self._values,
            numExternals=len(externals),
            inputIds=self.inputs,
            outputIds=self.outputs,
            constants=[schema.BytesT(), *data],
        )
        return write_blob(graph, inner)
