# SPDX-License-Identifier: Apache-2.0
"""The reference executor: runs the operator calls of a blob in order."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from delegatec_schemas.vulkan_graph import Content, DataType, MemoryLayout, StorageType, TensorT

from delegatec.backends.vulkan.blob import Blob
from delegatec.backends.vulkan.checks import NAMED
from delegatec.backends.vulkan.dtypes import FROM_FORMAT
from delegatec.backends.vulkan.reference import (
    attention,
    convolution,
    copies,
    creation,
    elementwise,
    gathers,
    moves,
    normalization,
    pooling,
    products,
    quantized,
    quantized_linear,
    reduction,
    unary,
)
from delegatec.backends.vulkan.reference.call import Call
from delegatec.backends.vulkan.reference.layouts import resolved_layouts
from delegatec.backends.vulkan.reference.run import Run, Semantics
from delegatec.backends.vulkan.reference.tensors import (
    LIMITS,
    STORAGE,
    Constant,
    Limits,
    Tensor,
    reject,
    text,
)
from delegatec.backends.vulkan.reference.unspecified import DEFAULT, Unspecified
from delegatec.delegation import ReferenceExecutor
from delegatec.edge.arguments import short_name

SEMANTICS: Final[dict[str, Semantics]] = {
    **attention.SEMANTICS,
    **convolution.SEMANTICS,
    **copies.SEMANTICS,
    **creation.SEMANTICS,
    **elementwise.SEMANTICS,
    **gathers.SEMANTICS,
    **pooling.SEMANTICS,
    **moves.SEMANTICS,
    **normalization.SEMANTICS,
    **products.SEMANTICS,
    **quantized.SEMANTICS,
    **quantized_linear.SEMANTICS,
    **reduction.SEMANTICS,
    **unary.SEMANTICS,
}

# Of the other dimensions of an empty tensor: torch multiplies all of them.
_MOST_ELEMENTS: Final = 1 << 48

# The runtime casts between a caller's dtype and the staged one.
_CASTS: Final = {
    torch.int32: (torch.int64,),
    torch.float32: (torch.float64, torch.float16),
}


class VulkanReferenceExecutor(ReferenceExecutor):
    """Runs one blob. Packed constants keep the data that operators write to them, as on the device.

    Args:
        blob: the blob.
        unspecified: choices for behavior that depends on the device.
        limits: the largest images of the device.
    """

    converts_outputs = True  # such as int32 to a caller's int64

    def __init__(self, blob: Blob, unspecified: Unspecified = DEFAULT, limits: Limits = LIMITS) -> None:
        self.num_inputs = len(blob.graph.inputIds)
        self._blob = blob
        self._unspecified = unspecified
        self._limits = limits
        self._named: dict[str, memoryview] = {}
        self._run: Run | None = None
        self._layouts: dict[int, int] = {}

    def load_named_data(self, named_data: Mapping[str, memoryview]) -> None:
        """Sets the named data of the program, by key; the constants are views of it."""
        self._named = dict(named_data)
        self._run = None

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the blob.

        Args:
            inputs: the delegate's inputs; a SymInt is a tensor of one element.

        Returns:
            Its outputs, with the dtypes that the blob stages: a caller's int64 is int32 there.

        Raises:
            DelegatecError: DC408 if the runtime would abort, or compute something undefined; DC440 if the
                result depends on the device, and the choice is to raise.
        """
        graph = self._blob.graph
        if len(inputs) != len(graph.inputIds):
            reject(f"{len(inputs)} inputs instead of {len(graph.inputIds)}")
        run = self._run or self._build()
        self._run = run
        for value in run.values:
            if isinstance(value, Tensor) and not run.is_resident(value):
                value.value = None
        self._copy_in(run, inputs)
        for call in self._calls(run):
            self._execute(run, call)
        return [self._copy_out(run, int(id)) for id in graph.outputIds]

    def _build(self) -> Run:
        graph = self._blob.graph
        self._layouts = resolved_layouts(graph)
        values = [self._value(id, value.contentType, value.content) for id, value in enumerate(graph.values)]
        run = Run(values, self._unspecified, self._limits)
        for id, value in enumerate(graph.values):
            if value.contentType == Content.SymInt:
                run.symbols[id] = value.content.value
        for call in self._calls(run):
            if call.name in creation.SCALARS:  # the runtime also computes these when it loads the blob
                self._execute(run, call)
        return run

    def _calls(self, run: Run) -> Iterator[Call]:
        for call in self._blob.graph.chain:
            yield Call(run, text(call.name), [int(id) for id in call.args])

    def _value(self, id: int, kind: int, content: Any) -> Any:
        if kind != Content.Tensor:
            return content
        dtype = FROM_FORMAT[content.dataType]
        sizes = [int(dim) for dim in content.dims]
        if content.constantId >= 0:
            return Constant(id, self._constant(content, dtype, sizes))
        storage = content.storageType
        if storage == StorageType.DEFAULT:
            # The fields of the graph that override it are not read by the runtime.
            storage = StorageType.TEXTURE_3D
        layout = self._layouts.get(id, content.memoryLayout)
        if layout == MemoryLayout.DEFAULT:
            channels = len(sizes) >= 3 and sizes[-3] != 1
            layout = MemoryLayout.CHANNELS_PACKED if channels else MemoryLayout.WIDTH_PACKED
        return Tensor(id, dtype, sizes, STORAGE[storage], layout, content.memoryId)

    def _constant(self, content: TensorT, dtype: torch.dtype, sizes: list[int]) -> torch.Tensor:
        stored = self._blob.graph.constants[content.constantId]
        size = math.prod(sizes) * dtype.itemsize
        if stored.offset == NAMED:
            key = text(stored.key)
            if key not in self._named:
                reject(f'it has no named data "{key}"')
            data = self._named[key].cast("B")[:size]
            if len(data) < size:
                reject(f'named data "{key}" has {len(data)} bytes instead of {size}')
        else:
            data = self._blob.constants[stored.offset : stored.offset + size]
        if not size:
            if math.prod(filter(None, sizes)) > _MOST_ELEMENTS:
                reject(f"a constant has the sizes {sizes}")
            return torch.empty(sizes, dtype=dtype)
        with warnings.catch_warnings():
            # torch warns that a tensor on read-only memory must not be written; nothing here writes one.
            warnings.simplefilter("ignore", UserWarning)
            view = torch.frombuffer(data, dtype=torch.uint8)
        if view.data_ptr() % dtype.itemsize:
            view = view.clone()
        return view.view(dtype).reshape(sizes)

    def _copy_in(self, run: Run, inputs: Sequence[torch.Tensor]) -> None:
        run.changed.clear()
        run.dynamic = True
        staged = []
        for id, given in zip(self._blob.graph.inputIds, inputs, strict=True):
            value = run.values[id]
            if id in run.symbols:
                symbol = int(given.flatten()[0]) if given.dtype in (torch.int32, torch.int64) else 0
                run.set_symbol(id, symbol)
            elif isinstance(value, Tensor):
                staging = self._staging(id)
                run.staging("nchw_to", value, staging)
                if given.dtype != staging and given.dtype not in _CASTS.get(staging, ()):
                    reject(f"input {id} is {short_name(given.dtype)}, and is staged as {short_name(staging)}")
                if list(given.shape) != value.sizes:
                    run.resize(value, list(given.shape))
                staged.append((value, given.to(staging)))
            else:
                reject(f"input {id} is neither a tensor nor a SymInt")
        for value, given in staged:
            run.staged[value.id] = given
            run.write(value, given)

    def _copy_out(self, run: Run, id: int) -> torch.Tensor:
        value = run.values[id]
        if isinstance(value, Constant):
            reject(f"output {id} is a constant, which the runtime does not write")
        tensor = run.tensor(id, "an output")
        staging = self._staging(id)
        run.staging("to_nchw", tensor, staging)
        return run.read(tensor).to(staging).clone()

    def _staging(self, id: int) -> torch.dtype:
        tensor = self._blob.graph.values[id].content
        kind = tensor.dataType if tensor.stagingDataType == DataType.UNSET else tensor.stagingDataType
        if kind not in FROM_FORMAT:
            reject(f"value {id} is staged with the unknown type {kind}")
        return FROM_FORMAT[kind]

    def _execute(self, run: Run, call: Call) -> None:
        if call.name not in SEMANTICS:
            reject(f"it has no operator {call.name}")
        run.dynamic = any(map(run.has_changed, call.ids))
        try:
            SEMANTICS[call.name](run, call)
        except (RuntimeError, LookupError, ValueError, ArithmeticError) as error:
            # Operands that the checks missed, and torch rejects.
            reject(f"{call.name}: {str(error).splitlines()[0]}")
