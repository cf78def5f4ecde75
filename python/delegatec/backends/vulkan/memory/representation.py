# SPDX-License-Identifier: Apache-2.0
"""How a tensor is stored on the device: a buffer, or a 3-d texture that packs four elements of a dimension.

A texture has the extents (width, height, channels times batch); the packed dimension takes a quarter of its
size, rounded up. Texels hold four elements, also for smaller dimensions. A buffer is row-major. Quantized
tensors are buffers of blocks of four or sixteen elements.

Source: the runtime's `vTensor` and `StorageUtils` (ExecuTorch 1.4.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from delegatec_schemas.vulkan_graph import MemoryLayout, StorageType

MOST_TEXTURE_DIMENSIONS: Final = 4
MOST_BUFFER_DIMENSIONS: Final = 8
_TEXEL: Final = 4


class Representation(Enum):
    """A storage type with a memory layout: the values of the format."""

    BUFFER = (StorageType.BUFFER, MemoryLayout.WIDTH_PACKED)
    WIDTH = (StorageType.TEXTURE_3D, MemoryLayout.WIDTH_PACKED)
    HEIGHT = (StorageType.TEXTURE_3D, MemoryLayout.HEIGHT_PACKED)
    CHANNELS = (StorageType.TEXTURE_3D, MemoryLayout.CHANNELS_PACKED)
    INT8_4W = (StorageType.BUFFER, MemoryLayout.INT8_4W)
    INT8_4H4W = (StorageType.BUFFER, MemoryLayout.INT8_4H4W)
    INT8_4C1W = (StorageType.BUFFER, MemoryLayout.INT8_4C1W)
    INT8_4W4C = (StorageType.BUFFER, MemoryLayout.INT8_4W4C)
    INT8_4C = (StorageType.BUFFER, MemoryLayout.INT8_4C)

    @property
    def is_texture(self) -> bool:
        """Whether it is a texture."""
        return bool(self.value[0] == StorageType.TEXTURE_3D)

    @property
    def is_quantized(self) -> bool:
        """Whether it is of int8."""
        return self in _BLOCKS

    def __str__(self) -> str:
        """Returns a short name, such as "texture, channels packed"."""
        if self.is_quantized:
            return f"buffer, blocks of {self.name.removeprefix('INT8_')}"
        return f"texture, {self.name.lower()} packed" if self.is_texture else "buffer"


Representations = frozenset[Representation]

BUFFER: Final = frozenset({Representation.BUFFER})
WIDTH: Final = frozenset({Representation.WIDTH})
HEIGHT: Final = frozenset({Representation.HEIGHT})
CHANNELS: Final = frozenset({Representation.CHANNELS})
TEXTURES: Final = WIDTH | HEIGHT | CHANNELS
ROWS: Final = BUFFER | WIDTH
"""Those in which four consecutive elements of a row are adjacent."""
ANY: Final = BUFFER | TEXTURES

INT8: Final = frozenset(each for each in Representation if each.name.startswith("INT8"))
"""Those of quantized tensors. The names are the extents of a block."""

_BLOCKS: Final = {
    Representation.INT8_4W: (4, 1, 1),
    Representation.INT8_4H4W: (4, 4, 1),
    Representation.INT8_4C1W: (1, 1, 4),
    Representation.INT8_4W4C: (4, 1, 4),
    Representation.INT8_4C: (1, 1, 4),
}
INT8_CHANNELS: Final = INT8 - {Representation.INT8_4W, Representation.INT8_4H4W}
"""Those in which four channels are adjacent."""

PACKED_AXIS: Final = {Representation.WIDTH: 0, Representation.HEIGHT: 1, Representation.CHANNELS: 2}
"""The axis of which each texel has four elements: 0 is the width."""


class Limits(NamedTuple):
    """The largest texture of a device, in texels."""

    width: int = 16384
    height: int = 16384
    depth: int = 2048


def extents(shape: Sequence[int], representation: Representation) -> tuple[int, int, int]:
    """Returns the extents of a texture in texels.

    Args:
        shape: sizes, at most four.
        representation: a texture.
    """
    batch, *sizes = [1] * (MOST_TEXTURE_DIMENSIONS - len(shape)) + list(shape)
    extent = sizes[::-1]
    packed = PACKED_AXIS[representation]
    extent[packed] = -(-extent[packed] // _TEXEL)
    return extent[0], extent[1], extent[2] * batch


def fits(shape: Sequence[int], representation: Representation, limits: Limits) -> bool:
    """Whether a tensor of a shape can be stored in a representation."""
    if representation is Representation.BUFFER:
        return len(shape) <= MOST_BUFFER_DIMENSIONS
    if representation.is_quantized:
        return len(shape) <= MOST_TEXTURE_DIMENSIONS
    if len(shape) > MOST_TEXTURE_DIMENSIONS:
        return False
    return all(extent <= limit for extent, limit in zip(extents(shape, representation), limits, strict=True))


def stored_elements(shape: Sequence[int], representation: Representation) -> int:
    """Returns the number of elements in memory, with the padding of texels and blocks."""
    if representation.is_quantized:
        batch, *sizes = [1] * (MOST_TEXTURE_DIMENSIONS - len(shape)) + list(shape)
        block = _BLOCKS[representation]
        return batch * math.prod(-(-size // b) * b for size, b in zip(sizes[::-1], block, strict=True))
    if not representation.is_texture:
        return math.prod(shape)
    return math.prod(extents(shape, representation)) * _TEXEL
