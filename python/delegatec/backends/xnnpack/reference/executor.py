# SPDX-License-Identifier: Apache-2.0
"""The reference executor: runs the nodes of a blob in order."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from delegatec_schemas.xnnpack_graph import DataType, Quantization

from delegatec.backends.xnnpack.blob import Blob
from delegatec.backends.xnnpack.checking.values import INPUT, NAMED, OUTPUT
from delegatec.backends.xnnpack.dtypes import FLOATS
from delegatec.backends.xnnpack.operands import OPERATION_NAMES, operand_ids
from delegatec.backends.xnnpack.reference import (
    binary,
    conversion,
    convolution,
    layers,
    moves,
    pooling,
    products,
    resizing,
    unary,
)
from delegatec.backends.xnnpack.reference.memory import PlannedMemory
from delegatec.backends.xnnpack.reference.run import MAX_ELEMENTS, Run, Semantics, truncated
from delegatec.backends.xnnpack.reference.tensors import DTYPES, Tensor, reject
from delegatec.backends.xnnpack.values import external_ids, quantization_of, tensor_of
from delegatec.delegation import ReferenceExecutor
from delegatec.edge.arguments import short_name

SEMANTICS: Final[dict[str, Semantics]] = {
    **binary.SEMANTICS,
    **conversion.SEMANTICS,
    **convolution.SEMANTICS,
    **layers.SEMANTICS,
    **moves.SEMANTICS,
    **pooling.SEMANTICS,
    **products.SEMANTICS,
    **resizing.SEMANTICS,
    **unary.SEMANTICS,
}
_STAND_INS: Final = frozenset({torch.uint8, torch.int32, torch.float16})
"""The types, by width, for inputs of other types, of which only the sizes are used."""
_NIBBLES: Final = frozenset({DataType.CHANNEL_INT4, DataType.GROUP_INT4})


class XnnpackReferenceExecutor(ReferenceExecutor):
    """Runs one blob.

    Args:
        blob: the blob.
        max_elements: the largest value; a damaged blob can ask for more memory than there is.
    """

    converts_outputs = True  # int32 to a caller's int64

    def __init__(self, blob: Blob, max_elements: int = MAX_ELEMENTS) -> None:
        self._blob = blob
        self._max_elements = max_elements
        self._named: Mapping[str, memoryview] = {}
        self._tensors: dict[int, Tensor] | None = None
        self._inputs = external_ids(blob.graph, INPUT)
        self._outputs = external_ids(blob.graph, OUTPUT)
        self.num_inputs = len(self._inputs)
        self.reads_blob = bool(blob.kept_ids)  # operations other than layers read constants at each run
        self._memory = PlannedMemory(blob.graph)
        self._read = {id for node in blob.graph.nodes for id in operand_ids(node)}

    def load_named_data(self, named_data: Mapping[str, memoryview]) -> None:
        """Sets the named data of the program, by key; the constants are views of it."""
        self._named = dict(named_data)
        self._tensors = None

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the blob.

        Args:
            inputs: the delegate's inputs, of any sizes: those of the other values follow from them.

        Returns:
            Its outputs; quantized ones as integers.

        Raises:
            DelegatecError: DC408 if the runtime would refuse the blob or the inputs, or compute something
                undefined.
        """
        if len(inputs) != len(self._inputs):
            reject(f"{len(inputs)} inputs instead of {len(self._inputs)}")
        if self._tensors is None:
            self._tensors = self._load()
        run = Run(self._tensors, self._max_elements)
        for tensor in self._tensors.values():
            if not tensor.is_constant:
                tensor.value = None
        for id, given in zip(self._inputs, inputs, strict=True):
            if id not in self._read:
                continue
            if given.dtype == torch.bool:
                given = given.view(torch.uint8)  # the runtime passes bytes
            run.write(id, self._as_declared(id, given))
        for node in self._blob.graph.nodes:
            name = OPERATION_NAMES[node.operationType]
            try:
                SEMANTICS[name](run, node.operation, node)
            except (RuntimeError, LookupError, ValueError, ArithmeticError) as error:
                # operands that the checks missed, and torch rejects
                reject(f"{name}: {str(error).splitlines()[0]}")
        self._memory.check(self._tensors)
        return [run.elements(id).clone() for id in self._outputs]

    def _as_declared(self, id: int, given: torch.Tensor) -> torch.Tensor:
        """Returns an input as the runtime reads it: types that XNNPACK lacks are reinterpreted as others."""
        assert self._tensors is not None
        declared = self._tensors[id].dtype
        if given.dtype == declared:
            return given
        is_narrow = given.element_size() < declared.itemsize
        if given.dtype in FLOATS or declared not in _STAND_INS or is_narrow:
            reject(f"input {id} is {short_name(given.dtype)}, and is declared as {short_name(declared)}")
        bits = given.contiguous().flatten().view(torch.uint8)[: given.numel() * declared.itemsize]
        return bits.view(declared).view(given.shape)

    def _load(self) -> dict[int, Tensor]:
        found: dict[int, Tensor] = {}
        for value in self._blob.graph.values:
            table = tensor_of(value)
            tensor = Tensor(int(table.id), table.dataType, len(table.dims))
            self._set_quantization(tensor, *quantization_of(value), table)
            if table.constantId:
                tensor.is_constant = True
                tensor.value = self._elements(table)
            found[tensor.id] = tensor
        return found

    def _set_quantization(self, tensor: Tensor, kind: int, table: Any, owner: Any) -> None:
        if kind == Quantization.ScaleOfTensor:
            tensor.scale = torch.tensor(table.scale, dtype=torch.float32)
            tensor.zero_point = int(table.zeroPoint)
        elif kind == Quantization.ScalesOfRows:
            tensor.row_dims = int(table.numRowDims)
        elif kind == Quantization.ScalesOfChannels:
            tensor.channel_dim = int(table.channelDim)
            count = int(owner.dims[tensor.channel_dim])
            if table.scalesConstantId:
                tensor.scale = self._constant(table.scalesConstantId, torch.float32, [count])
            else:
                tensor.scale = torch.tensor(table.scales[:count], dtype=torch.float32)
        elif kind == Quantization.ScalesOfGroups:
            tensor.group_size = int(table.groupSize)
            shape = [int(owner.dims[0]), int(owner.dims[1]) // tensor.group_size]
            if table.scalesConstantId:
                scales = self._constant(table.scalesConstantId, torch.bfloat16, shape)
            else:
                scales = torch.tensor(table.scales, dtype=torch.float32).reshape(shape)
                scales = _to_bfloat16(scales)
            tensor.scale = scales.float()

    def _elements(self, table: Any) -> torch.Tensor:
        shape = [int(size) for size in table.dims]
        if table.dataType not in _NIBBLES:
            return self._constant(table.constantId, DTYPES[table.dataType], shape)
        width = -(-shape[-1] // 2)
        pairs = self._constant(table.constantId, torch.uint8, [*shape[:-1], width])
        quantized_values = torch.stack([pairs & 15, pairs >> 4], -1).reshape(*shape[:-1], 2 * width)
        return quantized_values[..., : shape[-1]].to(torch.int8) - 8

    def _constant(self, index: int, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
        """Returns a constant, as a view of the blob or named data."""
        stored = self._blob.graph.constants[index]
        size = math.prod(shape) * dtype.itemsize
        if stored.offset == NAMED:
            key = stored.key.decode("utf-8", "backslashreplace")
            if key not in self._named:
                reject(f'it has no named data "{key}"')
            data = self._named[key].cast("B")
            if len(data) < size:
                reject(f'named data "{key}" has {len(data)} bytes instead of {size}')
        else:
            data = self._blob.constants[stored.offset : stored.offset + stored.size]
        if not size:
            return torch.empty(list(shape), dtype=dtype)
        with warnings.catch_warnings():
            # torch warns that a tensor on read-only memory must not be written; nothing here writes one
            warnings.simplefilter("ignore", UserWarning)
            view = torch.frombuffer(data[:size], dtype=torch.uint8)
        if view.data_ptr() % dtype.itemsize:
            view = view.clone()
        return view.view(dtype).reshape(list(shape))


def _to_bfloat16(scales: torch.Tensor) -> torch.Tensor:
    """Returns scales in bfloat16 as the runtime converts them: enlarged a little, then truncated."""
    return truncated(scales * 1.00389105)
