# SPDX-License-Identifier: Apache-2.0
"""Tensors of a run: their memory and values (the runtime's `vTensor` and `TensorRef`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn

import torch
from delegatec_schemas.vulkan_graph import MemoryLayout, StorageType

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import shortened

WIDTH: Final = 0
HEIGHT: Final = 1
CHANNELS: Final = 2
BUFFER: Final = "buffer"
TEXTURE_3D: Final = "texture3d"
TEXTURE_2D: Final = "texture2d"
STORAGE: Final = {
    StorageType.BUFFER: BUFFER,
    StorageType.TEXTURE_3D: TEXTURE_3D,
    StorageType.TEXTURE_2D: TEXTURE_2D,
}

# Layouts of four elements of a dimension, which counts from the last one: 0 is the width.
PACKED_DIMENSION: Final = {
    MemoryLayout.WIDTH_PACKED: WIDTH,
    MemoryLayout.HEIGHT_PACKED: HEIGHT,
    MemoryLayout.CHANNELS_PACKED: CHANNELS,
}
# The dimensions of a block of quantized elements, and whether it is transposed.
INT8_BLOCKS: Final = {
    MemoryLayout.INT8_4W4C: CHANNELS,
    MemoryLayout.INT8_4H4W: WIDTH,
    MemoryLayout.INT8_4W: WIDTH,
    MemoryLayout.INT8_4C: CHANNELS,
    MemoryLayout.INT8_4C1W: CHANNELS,
    MemoryLayout.INT8_CONV2D: CHANNELS,
}
SHADER_DTYPES: Final = {
    torch.float32: "float",
    torch.float16: "half",
    torch.int32: "int32",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.bool: "uint8",
    torch.int64: "int64",
    torch.float64: "double",
}

_MOST_BUFFER_DIMENSIONS: Final = 8
_MOST_TEXTURE_DIMENSIONS: Final = 4
_TEXEL: Final = 4


def reject(message: str) -> NoReturn:
    """Rejects a blob that the runtime would reject, or compute something undefined for.

    Raises:
        DelegatecError: DC408.
    """
    raise DelegatecError(
        [Diagnostic(code="DC408", message=f"the Vulkan runtime cannot run this blob: {shortened(message)}")]
    )


@dataclass(frozen=True)
class Limits:
    """The largest images of a device, in texels, which the runtime does not check, and its largest buffer.

    Attributes:
        plane: largest width and height of an image.
        volume: largest depth.
        buffer: elements of a buffer.
    """

    plane: int = 16384
    volume: int = 2048
    buffer: int = 2**27


LIMITS: Final = Limits()


@dataclass(eq=False)
class Constant:
    """A constant in the blob or named data: operators read it only by packing it into a tensor.

    Attributes:
        id: its value id.
        value: its elements.
    """

    id: int
    value: torch.Tensor

    @property
    def sizes(self) -> list[int]:
        """Its shape."""
        return list(self.value.shape)

    @property
    def dtype(self) -> torch.dtype:
        """Its dtype."""
        return self.value.dtype

    def __str__(self) -> str:
        return f"constant {self.id}"


@dataclass(eq=False)
class Tensor:
    """A tensor on the device.

    Attributes:
        id: its value id; negative for a packed constant inside of an operator.
        dtype: its dtype.
        sizes: its shape now.
        storage: "buffer", "texture3d" or "texture2d".
        layout: its memory layout, an enumerator of the format.
        memory: id of the memory that it shares, or negative.
        value: its elements, once written, and until other tensors overwrite its memory.
        largest: its declared shape: the memory that it has.
        pad: the elements that fill the last texels; None if they differ, and are finite.
    """

    id: int
    dtype: torch.dtype
    sizes: list[int]
    storage: str
    layout: int
    memory: int = -1
    value: torch.Tensor | None = None
    largest: list[int] = field(default_factory=list)
    pad: float | None = 0.0

    def __post_init__(self) -> None:
        self.largest = list(self.sizes)

    @property
    def dim(self) -> int:
        """Its rank."""
        return len(self.sizes)

    @property
    def numel(self) -> int:
        """The number of its elements."""
        return math.prod(self.sizes)

    @property
    def is_buffer(self) -> bool:
        """Whether it is a buffer."""
        return self.storage == BUFFER

    @property
    def packed(self) -> int:
        """The dimension of which four elements share a texel; 0 is the last dimension."""
        if self.layout in INT8_BLOCKS:
            return INT8_BLOCKS[self.layout]
        return PACKED_DIMENSION[self.layout]

    @property
    def is_int8_block(self) -> bool:
        """Whether it is a quantized tensor in blocks of int8."""
        return self.layout in INT8_BLOCKS

    @property
    def whcn(self) -> list[int]:
        """Its four innermost sizes, the width first."""
        padded = [1] * (4 - self.dim) + self.sizes
        return padded[::-1][:4]

    @property
    def limits(self) -> list[int]:
        """Its extents in texels: width, height, and depth."""
        return extents(self.sizes, self.packed)

    @property
    def shader_dtype(self) -> str:
        """The shaders' name of its dtype."""
        return "int32" if self.is_int8_block else SHADER_DTYPES[self.dtype]

    def __str__(self) -> str:
        what = f"value {self.id}" if self.id >= 0 else "a packed constant"
        layout = next(name for name, value in vars(MemoryLayout).items() if value == self.layout)
        return f"{what} ({SHADER_DTYPES[self.dtype]}{self.sizes}, {self.storage}, {layout.lower()})"

    @property
    def is_padded(self) -> bool:
        """Whether its last texels have more elements than the tensor."""
        return not self.is_buffer and self.whcn[self.packed] % _TEXEL != 0

    @property
    def is_spoiled(self) -> bool:
        """Whether elements that fill its last texels are infinite or NaN."""
        return self.is_padded and self.pad is not None and not math.isfinite(self.pad)

    def carry_pad(self, *operands: Tensor) -> None:
        """Takes infinite elements that fill texels from operands."""
        self.pad = next((operand.pad for operand in operands if operand.is_spoiled), None)

    def check(self, limits: Limits) -> None:
        """Rejects shapes that the storage does not support."""
        if self.storage == BUFFER:
            if self.dim > _MOST_BUFFER_DIMENSIONS:
                reject(f"{self} has more than {_MOST_BUFFER_DIMENSIONS} dimensions")
            if self.numel > limits.buffer:
                reject(f"{self} has more than {limits.buffer} elements")
            return
        if self.is_int8_block:
            reject(f"{self} is a texture; only buffers of blocks are supported")
        if self.dim > _MOST_TEXTURE_DIMENSIONS:
            reject(f"{self} is a texture of more than {_MOST_TEXTURE_DIMENSIONS} dimensions")
        x, y, z = self.limits
        largest = [limits.plane, limits.plane, limits.volume if self.storage == TEXTURE_3D else 1]
        if x > largest[0] or y > largest[1] or z > largest[2]:
            reject(f"{self} needs {[x, y, z]} texels; the largest image has {largest}")


def extents(sizes: Sequence[int], packed: int) -> list[int]:
    """Returns the extents of a texture in texels: width, height, and channels times batch."""
    padded = ([1] * (4 - len(sizes)) + list(sizes))[::-1]
    padded[packed] = -(-padded[packed] // _TEXEL)
    return [padded[0], padded[1], padded[2] * padded[3]]


def text(value: str | bytes | None) -> str:
    """Returns a string of the FlatBuffer, which may be damaged."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""
