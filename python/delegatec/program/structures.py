# SPDX-License-Identifier: Apache-2.0
"""The bytes that the runtime allocates while it loads a method, computed from the file alone.

Sources: the public headers of the runtime of 1.5.1 for the sizes of structures, and the allocations that an
arena of the same runtime has recorded, for their order; tests run programs in arenas of exactly these sizes,
and of one byte less. The layout for 32 bits is that of the same headers for Arm (AAPCS).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from delegatec.program.alignment import align
from delegatec.program.reader.model import (
    BoolList,
    DelegateCall,
    DoubleList,
    Dynamism,
    IntList,
    KernelCall,
    Method,
    Program,
    Tensor,
    TensorList,
    Value,
)

# Names of the runtime's structures -> size and alignment in bytes.
_Sizes = dict[str, tuple[int, int]]

SIZES_64: Final[_Sizes] = {
    "ArrayRef": (16, 8),
    "BackendDelegate": (56, 8),
    "BoxedEvalueList": (24, 8),
    "Chain": (32, 8),
    "CompileSpec": (24, 8),
    "EValue": (16, 8),
    "InstructionArgs": (16, 8),
    "MergedDataMap": (24, 8),
    "NamedData": (48, 8),
    "Tensor": (8, 8),
    "TensorImpl": (64, 8),
    "TensorMeta": (24, 8),
    "bool": (1, 1),
    "int32_t": (4, 4),
    "int64_t": (8, 8),
    "optional<Tensor>": (16, 8),
    "uint8_t": (1, 1),
    "void*": (8, 8),
}
SIZES_32: Final[_Sizes] = {
    "ArrayRef": (8, 4),
    "BackendDelegate": (40, 8),
    "BoxedEvalueList": (12, 4),
    "Chain": (16, 4),
    "CompileSpec": (12, 4),
    "EValue": (16, 8),
    "InstructionArgs": (8, 4),
    "MergedDataMap": (12, 4),
    "NamedData": (40, 8),
    "Tensor": (4, 4),
    "TensorImpl": (32, 4),
    "TensorMeta": (12, 4),
    "bool": (1, 1),
    "int32_t": (4, 4),
    "int64_t": (8, 8),
    "optional<Tensor>": (8, 4),
    "uint8_t": (1, 1),
    "void*": (4, 4),
}

# The most dimensions of a tensor in the runtime, kTensorDimensionLimit, a byte each in a TensorMeta's order.
_MOST_DIMENSIONS: Final = 16
# Alignment of a delegate's handle.
_HANDLE_ALIGNMENT: Final = 8


@dataclass
class _Allocator:
    """Counts bytes as the runtime's allocator does, whose memory starts at a multiple of 16."""

    sizes: _Sizes
    used: int = 0

    def add(self, structure: str, count: int = 1) -> None:
        """Counts a list of structures; an empty one is aligned, too."""
        size, alignment = self.sizes[structure]
        self.used = align(self.used, alignment) + size * count


def method_bytes(
    program: Program, method: Method, handles: Sequence[int], sizes: _Sizes, *, has_weights: bool
) -> int:
    """Returns the bytes of the method allocator that loading a method takes.

    Args:
        program: the program that contains it.
        method: the method.
        handles: bytes that the backend of each delegate allocates.
        sizes: `SIZES_64` or `SIZES_32`.
        has_weights: whether the app loads a `.ptd` with the program.
    """
    allocator = _Allocator(sizes)
    allocator.add("EValue", len(method.values))
    if method.inputs:
        allocator.add("bool", len(method.inputs))
    external = sum(isinstance(value, Tensor) and _is_external(value) for value in method.values)
    if external:
        allocator.add("NamedData", external)
    for value in method.values:
        _add_value(allocator, value)
    allocator.add("BackendDelegate", len(method.delegates))
    if has_weights and program.named_data:
        allocator.add("MergedDataMap")
    for delegate, handle in zip(method.delegates, handles, strict=True):
        allocator.add("CompileSpec", len(delegate.compile_specs))
        if handle:
            allocator.used = align(allocator.used, _HANDLE_ALIGNMENT) + handle
    allocator.add("Chain", len(method.chains))
    for chain in method.chains:
        allocator.add("void*", len(chain.instructions))
        allocator.add("InstructionArgs", len(chain.instructions))
        for instruction in chain.instructions:
            if isinstance(instruction, KernelCall | DelegateCall):
                allocator.add("void*", len(instruction.args))
    return allocator.used


def loading_bytes(method: Method, sizes: _Sizes) -> int:
    """Returns the bytes of the temporary allocator with which a method loads without more of the other one.

    The runtime describes the tensors of a kernel call in the temporary allocator if its size is at least that
    of as many descriptions as the call has arguments, and in the method allocator otherwise.
    """
    arguments = (
        len(instruction.args)
        for chain in method.chains
        for instruction in chain.instructions
        if isinstance(instruction, KernelCall)
    )
    return max(arguments, default=0) * (sizes["TensorMeta"][0] + _MOST_DIMENSIONS)


def temporary_bytes(method: Method, delegates: Iterable[int], sizes: _Sizes) -> int:
    """Returns the bytes of the temporary allocator.

    Args:
        method: the method.
        delegates: bytes that each delegate takes of it, one after another.
        sizes: `SIZES_64` or `SIZES_32`.
    """
    return max((loading_bytes(method, sizes), *delegates))


def _is_external(value: Tensor) -> bool:
    return value.external_key is not None and value.allocation is None


def _add_value(allocator: _Allocator, value: Value) -> None:
    match value:
        case IntList(items):
            allocator.add("void*", len(items))
            allocator.add("int64_t", len(items))
            allocator.add("BoxedEvalueList")
        case BoolList() | DoubleList() | str():
            allocator.add("ArrayRef")
        case TensorList(items, optional):
            allocator.add("optional<Tensor>" if optional else "Tensor", len(items))
            allocator.add("void*", len(items))
            allocator.add("BoxedEvalueList")
        case Tensor():
            if value.dynamism is not Dynamism.STATIC:
                allocator.add("int32_t", len(value.sizes))
                allocator.add("uint8_t", len(value.sizes))
            allocator.add("int32_t", len(value.sizes))
            allocator.add("TensorImpl")
