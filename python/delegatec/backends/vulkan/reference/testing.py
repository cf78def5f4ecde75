# SPDX-License-Identifier: Apache-2.0
"""Handwritten blobs for tests of the executor."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import flatbuffers
import torch
from delegatec_schemas import vulkan_graph as schema
from delegatec_schemas.vulkan_graph import Content, MemoryLayout, StorageType

from delegatec.backends.vulkan.blob import read_blob
from delegatec.backends.vulkan.dtypes import TO_FORMAT
from delegatec.backends.vulkan.reference.executor import VulkanReferenceExecutor
from delegatec.backends.vulkan.reference.unspecified import DEFAULT, Unspecified
from delegatec.diagnostics import DelegatecError

Placement = tuple[int, int]
"""A storage type and a memory layout."""
BUFFER: Final[Placement] = (StorageType.BUFFER, MemoryLayout.WIDTH_PACKED)
WIDTH: Final[Placement] = (StorageType.TEXTURE_3D, MemoryLayout.WIDTH_PACKED)
HEIGHT: Final[Placement] = (StorageType.TEXTURE_3D, MemoryLayout.HEIGHT_PACKED)
CHANNELS: Final[Placement] = (StorageType.TEXTURE_3D, MemoryLayout.CHANNELS_PACKED)
PLACEMENTS: Final = (BUFFER, WIDTH, HEIGHT, CHANNELS)
_ANY_PLACEMENT: Final[Placement] = (StorageType.DEFAULT, MemoryLayout.DEFAULT)
_ALIGNMENT: Final = 16


class Blob:
    """A blob under construction. Arguments of calls are ids, or Python values, which become values."""

    def __init__(self) -> None:
        self.values: list[schema.ValueT] = []
        self.calls: list[schema.OperatorCallT] = []
        self.constants: list[schema.BytesT] = []
        self.segment = bytearray()
        self.inputs: list[int] = []
        self.outputs: list[int] = []

    def _value(self, kind: int, content: Any) -> Id:
        self.values.append(schema.ValueT(kind, content))
        return Id(len(self.values) - 1)

    def tensor(
        self,
        shape: Sequence[int],
        dtype: torch.dtype = torch.float32,
        placement: Placement = _ANY_PLACEMENT,
        memory: int = -1,
        staging: torch.dtype | None = None,
    ) -> Id:
        """Adds a tensor."""
        staged = schema.DataType.UNSET if staging is None else TO_FORMAT[staging]
        table = schema.TensorT(TO_FORMAT[dtype], list(shape), -1, memory, *placement, staged)
        return self._value(Content.Tensor, table)

    def input(
        self,
        value: torch.Tensor,
        placement: Placement = _ANY_PLACEMENT,
        memory: int = -1,
        dtype: torch.dtype | None = None,
    ) -> Id:
        """Adds an input like a tensor."""
        id = self.tensor(value.shape, dtype or value.dtype, placement, memory, value.dtype if dtype else None)
        self.inputs.append(id)
        return id

    def output(
        self,
        shape: Sequence[int],
        dtype: torch.dtype = torch.float32,
        placement: Placement = _ANY_PLACEMENT,
        memory: int = -1,
    ) -> Id:
        """Adds an output."""
        id = self.tensor(shape, dtype, placement, memory)
        self.outputs.append(id)
        return id

    def constant(self, value: torch.Tensor) -> Id:
        """Adds a constant."""
        data = value.contiguous().numpy().tobytes()
        self.constants.append(schema.BytesT(len(self.segment), len(data), ""))
        self.segment += data + bytes(-len(data) % _ALIGNMENT)
        table = schema.TensorT(TO_FORMAT[value.dtype], list(value.shape), len(self.constants) - 1, -1)
        return self._value(Content.Tensor, table)

    def symbol(self, value: int) -> Id:
        """Adds an integer that may change."""
        return self._value(Content.SymInt, schema.SymIntT(value))

    def value(self, content: Any) -> Id:
        """Adds a value of a Python type; lists of ids are ValueLists, empty ones IntLists."""
        if isinstance(content, Id):
            return content
        if content is None:
            return self._value(Content.Null, schema.NullT())
        for kind, name in ((bool, "Bool"), (int, "Int"), (float, "Double"), (str, "String")):
            if isinstance(content, kind):
                return self._value(getattr(Content, name), getattr(schema, name + "T")(content))
        items = list(content)
        kinds = {type(item) for item in items}
        name = "ValueList" if Id in kinds else "DoubleList" if float in kinds else "IntList"
        return self._value(getattr(Content, name), getattr(schema, name + "T")(items))

    def call(self, name: str, *arguments: Any) -> None:
        """Adds an operator call."""
        ids = [self.value(argument) for argument in arguments]
        self.calls.append(schema.OperatorCallT(len(self.calls), name, ids))

    def data(self) -> bytes:
        """Returns the blob."""
        graph = schema.GraphT(
            version="0",
            chain=self.calls,
            values=self.values,
            inputIds=self.inputs,
            outputIds=self.outputs,
            constants=self.constants,
            shaders=[],
        )
        builder = flatbuffers.Builder(1024)
        builder.Finish(graph.Pack(builder), file_identifier=b"VK00")
        flatbuffer = bytes(builder.Output())
        flatbuffer += bytes(-len(flatbuffer) % _ALIGNMENT)
        end = 32 + len(flatbuffer)
        header = struct.pack("<4x4sHIIIQ", b"VH00", 30, 32, len(flatbuffer), end, len(self.segment))
        return header + bytes(2) + flatbuffer + bytes(self.segment)

    def executor(self, unspecified: Unspecified = DEFAULT) -> VulkanReferenceExecutor:
        """Returns its executor."""
        return VulkanReferenceExecutor(read_blob(memoryview(self.data())), unspecified)

    def run(self, *inputs: torch.Tensor, unspecified: Unspecified = DEFAULT) -> list[torch.Tensor]:
        """Runs it once."""
        return self.executor(unspecified)(inputs)

    def rejection(self, *inputs: torch.Tensor, unspecified: Unspecified = DEFAULT) -> str:
        """Returns the message with which it is rejected, or "" if it runs."""
        try:
            self.run(*inputs, unspecified=unspecified)
        except DelegatecError as error:
            (diagnostic,) = error.diagnostics
            return diagnostic.message.removeprefix("the Vulkan runtime cannot run this blob: ")
        return ""


class Id(int):
    """The id of a value."""
