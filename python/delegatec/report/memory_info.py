# SPDX-License-Identifier: Apache-2.0
"""The memory of a method in its manifest, in bytes: its plan, and what an app gives the runtime."""

from __future__ import annotations

from dataclasses import dataclass, field

from delegatec.report.decoding import Size


@dataclass(frozen=True)
class PlannedStorage:
    """A storage in planned memory.

    Attributes:
        name: the value that it was created for.
        bytes: size in bytes.
        offset: offset in its memory.
        first: index of the instruction that writes it; -1 for an input.
        last: index of the last instruction that reads it.
        memory: its memory id.
        uses: number of reads and writes by instructions.
    """

    name: str
    bytes: Size
    offset: Size
    first: int
    last: int
    memory: Size = 1
    uses: Size = 0


@dataclass(frozen=True)
class DeclaredMemory:
    """A memory that the user has declared.

    Attributes:
        name: its name, such as "sram".
        capacity: its bytes.
        bytes: planned bytes of the method in it, under the memory id of its position, from 1.
        state: bytes of the state that methods share in it, under the memory id after the last one.
    """

    name: str
    capacity: Size
    bytes: Size
    state: Size = 0


@dataclass(frozen=True)
class MemoryInfo:
    """The memory plan of a method.

    Attributes:
        arena_bytes: size of the arena, or of all memories.
        lower_bound_bytes: the most bytes alive at one time; no plan is smaller.
        order: name of the winning order of placement.
        storages: the storages.
        memories: the declared memories, the fastest first; none by default.
    """

    arena_bytes: Size
    lower_bound_bytes: Size
    order: str
    storages: tuple[PlannedStorage, ...]
    memories: tuple[DeclaredMemory, ...] = ()


@dataclass(frozen=True)
class AllocatorInfo:
    """An allocator that an app gives the runtime for a method.

    Attributes:
        bytes: what the runtime of 1.5.1 takes of it, exactly, if it starts at a multiple of 16.
        besides: ids of the backends, and names of the custom kernels, that may take more of it.
    """

    bytes: Size = 0
    besides: tuple[str, ...] = ()


@dataclass(frozen=True)
class ArenaInfo:
    """The memory that an app gives the runtime for a method.

    Backends also allocate with `malloc`, such as packed weights and XNNPACK's workspace, or on their device.

    Attributes:
        planned: bytes of each planned memory, from memory id 1.
        method: the method allocator, on a 64-bit platform.
        temporary: the temporary allocator, on a 64-bit platform.
        method_32: the method allocator on a 32-bit Arm platform.
        temporary_32: the temporary allocator on a 32-bit Arm platform.
        scratch: id of a backend -> the most bytes of the temporary allocator that a delegate of it takes.
    """

    planned: tuple[Size, ...] = ()
    method: AllocatorInfo = AllocatorInfo()
    temporary: AllocatorInfo = AllocatorInfo()
    method_32: AllocatorInfo = AllocatorInfo()
    temporary_32: AllocatorInfo = AllocatorInfo()
    scratch: dict[str, Size] = field(default_factory=dict)
