# SPDX-License-Identifier: Apache-2.0
"""Handwritten blobs for tests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import DataType, Operation, Quantization

from delegatec.backends.common.headed_format import ALIGNMENT, HEADER
from delegatec.backends.xnnpack.blob import write_blob
from delegatec.backends.xnnpack.checking.values import INPUT, NAMED, OUTPUT
from delegatec.backends.xnnpack.operands import CONCATENATIONS, NO_VALUE
from delegatec.delegation.protocol.parts import join

FLOATS: Final = {
    torch.float32: DataType.FLOAT32,
    torch.float16: DataType.FLOAT16,
    torch.bfloat16: DataType.BFLOAT16,
    torch.int32: DataType.INT32,
}
QUANTIZED: Final = {torch.int8: DataType.INT8, torch.uint8: DataType.UINT8}


@dataclass(frozen=True)
class Quantized:
    """Quantized values with one scale and zero point: an input, a constant, or an expected result.

    Attributes:
        tensor: int8 or uint8; int32 for a bias.
        scale: the quantization step.
        zero_point: the quantized value of 0.
    """

    tensor: torch.Tensor
    scale: float
    zero_point: int = 0


@dataclass(frozen=True)
class Channels:
    """Quantized values with a scale for each channel.

    Attributes:
        tensor: int8, for a bias int32.
        scales: float32.
        dim: of channels.
        bits: 8, or 4: [-8, 8), packed along the last dimension; 32 for a bias.
    """

    tensor: torch.Tensor
    scales: torch.Tensor
    dim: int = 0
    bits: int = 8


@dataclass(frozen=True)
class Groups:
    """Four-bit values with a scale for each channel and group of inputs.

    Attributes:
        tensor: int8 in [-8, 8), [channels, inputs].
        scales: float32, [channels, groups].
        size: inputs in a group.
        constant: whether the scales are a constant in bfloat16.
    """

    tensor: torch.Tensor
    scales: torch.Tensor
    size: int
    constant: bool = False


_BINARY: Final = (
    *("Add", "Divide", "Minimum", "Multiply", "Subtract", "Maximum", "Prelu", "BatchMatrixMultiply"),
)
_TABLES: Final[dict[str, Any]] = {
    **dict.fromkeys(_BINARY, schema.BinaryT),
    **dict.fromkeys(("DepthwiseConvolution", "TransposedConvolution"), schema.ConvolutionT),
    **dict.fromkeys(("AveragePooling", "MaxPooling"), schema.PoolingT),
    **dict.fromkeys(CONCATENATIONS, schema.ConcatenateT),
}
Content = torch.Tensor | Quantized | Channels | Groups
_CHANNEL_TYPES: Final = {8: DataType.CHANNEL_INT8, 4: DataType.CHANNEL_INT4, 32: DataType.CHANNEL_INT32}


def pack_nibbles(quantized: torch.Tensor) -> bytes:
    """Packs values of [-8, 8) plus 8: two adjacent ones of a row in a byte, the first in its low nibble."""
    unsigned = (quantized.to(torch.int16) + 8).to(torch.uint8)
    if unsigned.shape[-1] % 2:
        unsigned = torch.nn.functional.pad(unsigned, (0, 1))
    return (unsigned[..., ::2] | unsigned[..., 1::2] << 4).contiguous().numpy().tobytes()


def _raw(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.dim() else _raw(tensor[None])


class Blob:
    """A blob under construction. Values are numbered from 10, so that ids differ from indices.

    Attributes:
        graph: the graph.
        named: key -> bytes of constants.
        segment: bytes of the other constants.
    """

    def __init__(self) -> None:
        self.graph = schema.GraphT(
            version="0", nodes=[], values=[], inputIds=[], outputIds=[], constants=[schema.BytesT(0, 0)]
        )
        self.graph.numExternals = 0
        self.named: dict[str, bytes] = {}
        self.segment = bytearray()

    def value(
        self,
        data_type: int,
        shape: Sequence[int],
        quantization: tuple[int, Any] | None = None,
        *,
        flags: int = 0,
        constant: int = 0,
    ) -> int:
        """Adds a value and returns its id.

        Args:
            data_type: of the format.
            shape: its declared sizes.
            quantization: the type in the union, and the table.
            flags: INPUT, OUTPUT or 0; the next external id follows.
            constant: index of its bytes.
        """
        id = 10 + len(self.graph.values)
        external = self.graph.numExternals if flags else NO_VALUE
        tensor = schema.TensorT(data_type, len(shape), list(shape), constant, external, flags, id)
        self.graph.numExternals += bool(flags)
        if quantization is None:
            self.graph.values.append(schema.ValueT(schema.Content.Tensor, tensor))
        else:
            content = schema.QuantizedTensorT(tensor, *quantization)
            self.graph.values.append(schema.ValueT(schema.Content.QuantizedTensor, content))
        for ids, flag in ((self.graph.inputIds, INPUT), (self.graph.outputIds, OUTPUT)):
            if flags & flag:
                ids.append(id)
        return id

    def like(self, content: Content, flags: int = 0) -> int:
        """Adds a value with the dtype, shape and quantization of a tensor."""
        if isinstance(content, torch.Tensor):
            return self.value(FLOATS[content.dtype], content.shape, flags=flags)
        assert isinstance(content, Quantized)
        return self.quantized(
            content.tensor.dtype, content.tensor.shape, content.scale, content.zero_point, flags
        )

    def quantized(
        self, dtype: torch.dtype, shape: Sequence[int], scale: float, zero_point: int, flags: int = 0
    ) -> int:
        """Adds a quantized value with one scale and zero point."""
        table = schema.ScaleOfTensorT(scale, zero_point)
        return self.value(QUANTIZED[dtype], shape, (Quantization.ScaleOfTensor, table), flags=flags)

    def rows(self, shape: Sequence[int], dims: int = 1) -> int:
        """Adds a value whose rows are quantized dynamically."""
        table = schema.ScalesOfRowsT(dims)
        return self.value(DataType.DYNAMIC_INT8, shape, (Quantization.ScalesOfRows, table))

    def stored(self, data: bytes, *, inline: bool = False) -> int:
        """Adds the bytes of a constant, and returns their index."""
        if inline:
            self.graph.constants.append(schema.BytesT(len(self.segment), len(data)))
            self.segment += data + bytes(-len(data) % ALIGNMENT)
        else:
            key = hashlib.sha256(data).hexdigest()[:16]
            self.named[key] = data
            self.graph.constants.append(schema.BytesT(NAMED, len(data), key))
        return len(self.graph.constants) - 1

    def constant(self, content: Content, *, inline: bool = False) -> int:
        """Adds a constant and returns its id."""
        if isinstance(content, torch.Tensor):
            index = self.stored(_raw(content), inline=inline)
            return self.value(FLOATS[content.dtype], content.shape, constant=index)
        if isinstance(content, Quantized):
            types = {**QUANTIZED, torch.int32: DataType.BIAS_INT32}
            scale = (Quantization.ScaleOfTensor, schema.ScaleOfTensorT(content.scale, content.zero_point))
            index = self.stored(_raw(content.tensor), inline=inline)
            return self.value(types[content.tensor.dtype], content.tensor.shape, scale, constant=index)
        if isinstance(content, Channels):
            raw = pack_nibbles(content.tensor) if content.bits == 4 else _raw(content.tensor)
            channels = schema.ScalesOfChannelsT(content.scales.tolist(), content.dim, 0, len(content.scales))
            index = self.stored(raw, inline=inline)
            return self.value(
                _CHANNEL_TYPES[content.bits],
                content.tensor.shape,
                (Quantization.ScalesOfChannels, channels),
                constant=index,
            )
        groups = schema.ScalesOfGroupsT(content.scales.flatten().tolist(), 0, content.size, 0, 0)
        if content.constant:
            groups.scales = []
            groups.scalesConstantId = self.stored(
                content.scales.to(torch.bfloat16).view(torch.int16).contiguous().numpy().tobytes()
            )
            groups.numScales = content.scales.numel()
        index = self.stored(pack_nibbles(content.tensor), inline=inline)
        return self.value(
            DataType.GROUP_INT4,
            content.tensor.shape,
            (Quantization.ScalesOfGroups, groups),
            constant=index,
        )

    def node(self, name: str, *fields: Any, limits: tuple[float, float] | None = None) -> None:
        """Adds a node with the fields of its table, in order."""
        kind = getattr(Operation, name)
        table = _TABLES.get(name) or getattr(schema, f"{name}T", schema.UnaryT)
        bounds = None if limits is None else schema.LimitsT(*limits)
        self.graph.nodes.append(schema.NodeT(kind, table(*fields), len(self.graph.nodes), bounds))

    def data(self) -> bytes:
        """Returns the blob."""
        written = bytearray(join(write_blob(self.graph, checked=False)))
        *fields, _ = HEADER.unpack_from(written)
        HEADER.pack_into(written, 0, *fields, len(self.segment))
        return bytes(written + self.segment)

    def named_data(self) -> Mapping[str, memoryview]:
        """Returns the named data, as an executor takes it."""
        return {key: memoryview(data) for key, data in self.named.items()}


def network() -> Blob:
    """A blob with every kind of value: an int8 convolution, a dynamic and a plain layer, and moves."""
    blob = Blob()
    image = blob.like(Quantized(torch.zeros(1, 6, 6, 2, dtype=torch.int8), 0.1, 1), INPUT)  # 10
    rows = blob.like(torch.zeros(3, 64), INPUT)  # 11
    filter = blob.constant(Channels(torch.ones(4, 3, 3, 2, dtype=torch.int8), torch.ones(4)), inline=True)
    sums = blob.quantized(torch.int8, (1, 4, 4, 4), 0.4, 0)  # 13
    sizes = (0, 0, 0, 0, 3, 3, 1, 1, 1, 1, 2, 4, 1, 0, 0)
    blob.node("Convolution", *sizes, image, filter, NO_VALUE, sums, 0, limits=(0.0, 6.0))
    moved = blob.quantized(torch.int8, (4, 1, 4, 4), 0.4, 0)  # 14
    blob.node("Transpose", 4, [3, 0, 1, 2], sums, moved, 0)
    image_output = blob.quantized(torch.int8, (1, 4, 4, 4), 0.8, 0, OUTPUT)  # 15
    blob.node("Add", moved, moved, image_output, 0)
    dynamic = blob.rows((3, 64))  # 16
    blob.node("Convert", rows, dynamic, 0)
    groups = Groups(torch.ones(8, 64, dtype=torch.int8), torch.ones(8, 2), 32)
    grouped = blob.constant(groups)  # 17
    hidden = blob.value(DataType.FLOAT32, (3, 8))  # 18
    blob.node("FullyConnected", dynamic, grouped, NO_VALUE, hidden, 0)
    slopes = blob.constant(torch.ones(8))  # 19
    output = blob.value(DataType.FLOAT32, (3, 8), flags=OUTPUT)  # 20
    blob.node("Prelu", hidden, slopes, output, 0)
    return blob
