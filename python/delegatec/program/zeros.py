# SPDX-License-Identifier: Apache-2.0
"""Initial state of zeros: large buffers, such as caches, share a small block of the file.

The runtime initializes each tensor in planned memory that has data, whether an instruction uses it or not. So
tensors of the size of the block, one after the other, initialize the memory of a buffer, which has no data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import torch

from delegatec.program.constants import ConstantPool
from delegatec.program.emitted import TensorValue, Value
from delegatec.program.scalar_type import SCALAR_TYPES

_LEAST_BLOCK: Final = 4096
# Bytes of a tensor in the file, and about as many in the runtime.
_TENSOR: Final = 256


@dataclass(frozen=True)
class Zeros:
    """A buffer of zeros among the values of a method.

    Attributes:
        values: the values.
        index: of the buffer.
        size: in bytes.
    """

    values: list[Value]
    index: int
    size: int


def is_zero(tensor: torch.Tensor) -> bool:
    """Whether all bytes are zero, also the signs."""
    return not bool(tensor.detach().reshape(-1).view(torch.uint8).any())


def initialize(buffers: Iterable[Zeros], initial: ConstantPool) -> None:
    """Gives buffers zeros as their initial state, in place.

    Args:
        buffers: the buffers of all methods.
        initial: the initial values of a program.
    """
    buffers = list(buffers)
    if not buffers:
        return
    block = _block([each.size for each in buffers])
    zeros = torch.zeros(block, dtype=torch.uint8)
    for each in buffers:
        buffer = each.values[each.index]
        assert isinstance(buffer, TensorValue)
        if each.size <= block:
            index = initial.add(zeros[: each.size], buffer.name)
            each.values[each.index] = replace(buffer, constant_index=index)
        else:
            index = initial.add(zeros, "")
            each.values.extend(_parts(buffer, each.size, block, index))


def _block(sizes: list[int]) -> int:
    """Returns the size of the block with which a file is smallest."""
    largest = max(sizes)
    powers = [1 << bits for bits in range(_LEAST_BLOCK.bit_length() - 1, largest.bit_length())]

    def cost(block: int) -> int:
        return block + _TENSOR * sum(math.ceil(size / block) for size in sizes if size > block)

    return min([largest, *powers], key=cost)


def _parts(buffer: TensorValue, size: int, block: int, index: int) -> Iterator[TensorValue]:
    """Yields tensors that cover the memory of a buffer; the last one may overlap the one before it."""
    assert buffer.offset is not None
    for start in range(0, size, block):
        yield TensorValue(
            SCALAR_TYPES[torch.uint8],
            (block,),
            index,
            buffer.offset + min(start, size - block),
            is_mutable=True,
            arena=buffer.arena,
        )
