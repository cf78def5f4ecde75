# SPDX-License-Identifier: Apache-2.0
"""State of a delegate on the device: tensors, scalars, shared memory (the runtime's `ComputeGraph`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from delegatec_schemas.vulkan_graph import Content, MemoryLayout, ValueListT

from delegatec.backends.vulkan.reference.kernels import bindings_of
from delegatec.backends.vulkan.reference.tensors import (
    BUFFER,
    LIMITS,
    SHADER_DTYPES,
    Constant,
    Limits,
    Tensor,
    reject,
)
from delegatec.backends.vulkan.reference.unspecified import DEFAULT, Unspecified

# Images of these dtypes are read by the same type of sampler, which converts.
_SAMPLERS: Final = {"float": "float", "half": "float", "uint8": "unsigned"}
_SIGNED: Final = "signed"

# Layouts of buffers that are not row-major, and the shaders that read any strides.
_COLUMNS: Final = (MemoryLayout.HEIGHT_PACKED, MemoryLayout.CHANNELS_PACKED)
_STRIDED: Final = ("nchw_to_", "buffer_to_", "view_", "clone_", "permute_", "binary_", "conv1d_")


class Run:
    """Tensors by value id, and the state that their operators share.

    Attributes:
        values: a tensor, constant, or content of the blob, by id.
        symbols: integers that may change between runs, by id.
        changed: ids of the tensors and integers whose sizes or values changed in this run.
        dynamic: whether the current call resizes its results: the runtime does where an argument changed.
        unspecified: choices for unspecified behavior.
        limits: the largest images.
        staged: the tensors that the caller passed, by id.
        own: tensors that operators make, and keep between runs.
    """

    def __init__(
        self, values: Sequence[Any], unspecified: Unspecified = DEFAULT, limits: Limits = LIMITS
    ) -> None:
        self.values = list(values)
        self.symbols: dict[int, int] = {}
        self.changed: set[int] = set()
        self.dynamic = False
        self.unspecified = unspecified
        self.limits = limits
        self.staged: dict[int, torch.Tensor] = {}
        self.own: dict[tuple[Any, ...], Tensor] = {}
        self._resident: set[int] = set()
        self._sharing: dict[int, list[Tensor]] = defaultdict(list)
        for value in self.values:
            if isinstance(value, Tensor):
                value.check(limits)
                if value.memory >= 0:
                    self._sharing[value.memory].append(value)

    def tensor(self, id: int, what: str = "an operand") -> Tensor:
        """Returns a tensor of the device."""
        value = self.values[id]
        if isinstance(value, Constant):
            reject(f"{what} is constant {id}, which the operator does not pack into a tensor")
        if not isinstance(value, Tensor):
            reject(f"{what} is value {id}, which is not a tensor")
        return value

    def read(self, tensor: Tensor) -> torch.Tensor:
        """Returns the elements of a tensor."""
        if tensor.value is None:
            reject(f"{tensor} is used before it is written, or after another tensor overwrote its memory")
        return tensor.value

    def write(self, tensor: Tensor, value: torch.Tensor, *, resizes: bool = True) -> None:
        """Writes a result.

        Args:
            tensor: the result.
            value: its elements, in any dtype.
            resizes: whether the operator resizes its result if an argument changed.
        """
        shape = list(value.shape)
        if shape != tensor.sizes:
            if not (self.dynamic and resizes):
                reject(f"{tensor} is the result of an operator that computes the shape {shape}")
            self.resize(tensor, shape)
        for other in self._sharing[tensor.memory] if tensor.memory >= 0 else ():
            if other is not tensor:
                other.value = None
        tensor.value = value.to(tensor.dtype).contiguous()
        tensor.pad = 0.0

    def resize(self, tensor: Tensor, shape: list[int]) -> None:
        """Changes the shape of a tensor within its memory (`virtual_resize`)."""
        if len(shape) != tensor.dim:
            reject(f"{tensor} is resized to {shape}; the number of dimensions is fixed")
        largest = Tensor(-1, tensor.dtype, tensor.largest, tensor.storage, tensor.layout)
        resized = Tensor(-1, tensor.dtype, shape, tensor.storage, tensor.layout)
        too_large = (
            resized.numel > largest.numel
            if tensor.is_buffer
            else any(a > b for a, b in zip(resized.limits, largest.limits, strict=True))
        )
        if too_large:
            reject(f"{tensor} is resized to {shape}, and has memory for {tensor.largest}")
        if tensor.sizes != shape:
            tensor.sizes = shape
            self.changed.add(tensor.id)

    def set_symbol(self, id: int, value: int) -> None:
        """Sets an integer (`set_symint`)."""
        if self.symbols[id] != value:
            self.symbols[id] = value
            self.changed.add(id)

    def has_changed(self, id: int) -> bool:
        """Whether a value changed in this run, or an item of a list (`was_value_updated`)."""
        value = self.values[id]
        return id in self.changed or (
            isinstance(value, ValueListT) and any(map(self.has_changed, value.items))
        )

    def pack(
        self,
        constant: Constant,
        storage: str,
        layout: int = MemoryLayout.WIDTH_PACKED,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """Packs a constant into a tensor that the operator reads (`prepack_standard`)."""
        packed = Tensor(-1, dtype or constant.dtype, constant.sizes, storage, layout)
        packed.check(self.limits)
        self.staging("nchw_to", packed, constant.dtype)
        packed.value = constant.value.to(packed.dtype)
        return packed

    def make_resident(self, tensor: Tensor) -> None:
        """Marks a tensor that keeps its elements between runs: a constant, packed once."""
        if tensor.memory >= 0:
            reject(f"{tensor} is a packed constant, and shares memory {tensor.memory} with other tensors")
        self._resident.add(id(tensor))

    def is_resident(self, tensor: Tensor) -> bool:
        """Whether a tensor keeps its elements between runs."""
        return id(tensor) in self._resident

    def staging(self, direction: str, tensor: Tensor, staging: torch.dtype) -> None:
        """Checks that elements of a dtype can be copied into a tensor ("nchw_to") or from it ("to_nchw")."""
        if tensor.is_int8_block:
            if staging != torch.int8:
                reject(f"{tensor} is copied from or to {SHADER_DTYPES[staging]}")
            return
        kind = BUFFER if tensor.is_buffer else f"image_{tensor.storage}"
        ends = (SHADER_DTYPES[tensor.dtype], SHADER_DTYPES[staging])
        if direction == "nchw_to":
            self.kernel("_".join(["nchw_to", kind, *ends]), tensor)
        else:
            storage, _, plane = kind.partition("_")
            name = "_".join([storage, "to_nchw", *([plane] if plane else []), *ends])
            self.kernel(name, None, tensor)

    def kernel(self, name: str, *tensors: Tensor | None) -> None:
        """Checks a shader and the first tensors that it binds, with results first.

        Args:
            name: the name of the shader.
            tensors: results and operands; None for those that the operator makes.
        """
        bindings = bindings_of(name)
        if bindings is None:
            reject(f"it has no shader {name}")
        if len(bindings) < len(tensors):
            reject(f"shader {name} binds {len(bindings)} tensors, and the operator passes {len(tensors)}")
        pairs = list(zip(bindings, tensors, strict=False))
        for index, (binding, tensor) in enumerate(pairs):
            if tensor is None:
                continue
            if tensor.storage != binding.storage:
                reject(f"{tensor} is tensor {index} of shader {name}, which binds a {binding.storage}")
            if tensor.is_buffer and tensor.layout in _COLUMNS and not _takes_strides(name):
                reject(f"{tensor} is tensor {index} of shader {name}, which needs a row-major buffer")
            found = tensor.shader_dtype
            exact = tensor.is_buffer or binding.written
            if found != binding.dtype and (exact or _sampler(found) != _sampler(binding.dtype)):
                reject(f"{tensor} is tensor {index} of shader {name}, which binds {binding.dtype}")
            if not binding.written:
                self.read(tensor)
        written = [t for binding, t in pairs if t is not None and binding.written and t.memory >= 0]
        for tensor in tensors:
            for result in written:
                if tensor is not None and tensor is not result and tensor.memory == result.memory:
                    reject(f"shader {name} writes {result} and uses {tensor}, which share memory")


def _takes_strides(kernel: str) -> bool:
    # Functions of one operand, whose names end in the storage, need the same layout only.
    return kernel.startswith(_STRIDED) or kernel.endswith("_buffer")


def _sampler(dtype: str) -> str:
    return _SAMPLERS.get(dtype, _SIGNED)


def kernel_name(base: str, tensor: Tensor, *, dtype_first: bool = False) -> str:
    """Returns the name of a shader for a tensor: its storage, then its dtype, or the other way round."""
    parts = [tensor.storage, tensor.shader_dtype]
    return "_".join([base, *(reversed(parts) if dtype_first else parts)])


Semantics = Callable[[Run, Any], None]
"""Runs one operator call, given the state and its `Call`."""

SCALARS: Final = (Content.Int, Content.Double, Content.Bool)
