# SPDX-License-Identifier: Apache-2.0
"""Our Vulkan blobs by the peer's reader and schema, and the peer's blobs by ours: every kind of value."""

from __future__ import annotations

import dataclasses
import importlib.resources
import subprocess
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from delegatec_schemas import vulkan_graph as schema

from delegatec.backends.vulkan.blob import Blob, read_blob, write_blob
from delegatec.backends.vulkan.checks import NAMED
from delegatec.backends.vulkan.graph import blob_graph
from delegatec.backends.vulkan.testing import compile_module
from delegatec.delegation import format_blob_graph
from delegatec.delegation.protocol.parts import join
from tests.peer.vulkan_lowering import quiet

with quiet():
    import executorch
    from executorch.backends.vulkan import serialization
    from executorch.backends.vulkan.serialization import vulkan_graph_schema as peer
    from executorch.backends.vulkan.serialization.vulkan_graph_serialize import (
        VulkanDelegateHeader,
        extract_vk_flatbuffer,
        flatbuffer_to_vk_graph,
        serialize_vulkan_graph,
    )

pytestmark = pytest.mark.filterwarnings("ignore:read_binary:DeprecationWarning")

# Every kind of value of the peer, with values that a reader could confuse with defaults.
VALUES: list[Any] = [
    peer.VkTensor(
        peer.VkDataType.FLOAT32,
        [2, 3],
        -1,
        4,
        peer.VkStorageType.TEXTURE_3D,
        peer.VkMemoryLayout.TENSOR_CHANNELS_PACKED,
        peer.VkDataType.INT64,
    ),
    peer.VkTensor(peer.VkDataType.BOOL, [], 0, -1),
    peer.VkTensor(
        peer.VkDataType.INT8,
        [7],
        1,
        -1,
        peer.VkStorageType.BUFFER,
        peer.VkMemoryLayout.PACKED_INT8_4C1W,
    ),
    peer.Null(),
    peer.Int(-(2**40)),
    peer.Int(0),
    peer.Double(-1.5e300),
    peer.Double(0.0),
    peer.Bool(True),
    peer.Bool(False),
    peer.IntList([1, -(2**40), 0]),
    peer.IntList([]),
    peer.DoubleList([0.5, -0.25]),
    peer.BoolList([True, False, True]),
    peer.ValueList([0, 4, 2]),
    peer.String("tanh"),
    peer.SymInt(-7),
]
_KEY = "a key of named data"


def graph_of(values: list[Any], constants: list[Any]) -> Any:
    """Returns the peer's graph of values and calls of all of them."""
    return peer.VkGraph(
        version="7",
        chain=[
            peer.OperatorCall(3, "aten.cat.default", list(range(len(values)))),
            peer.OperatorCall(4, "aten.sin.default", [0, 0]),
        ],
        values=[peer.VkValue(value) for value in values],
        input_ids=[0],
        output_ids=[0, 0],
        constants=constants,
        shaders=[],
        storage_type_override=peer.VkStorageType.BUFFER,
        memory_layout_override=peer.VkMemoryLayout.TENSOR_HEIGHT_PACKED,
    )


def python(value: Any) -> Any:
    """Returns a field of our reader in the types of the peer's."""
    if value is None:
        return []
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.decode() if isinstance(value, bytes) else value


def contents(blob: Blob) -> list[tuple[str, Any]]:
    """Returns the type and the fields of each value, tensors as the peer's dataclass has them."""
    found: list[tuple[str, Any]] = []
    for value in blob.graph.values:
        content = value.content
        name = type(content).__name__.removesuffix("T")
        if name == "Tensor":
            found.append(("VkTensor", [python(each) for each in _tensor(content)]))
        else:
            found.append((name, [python(each) for each in vars(content).values()]))
    return found


def _tensor(content: Any) -> list[Any]:
    return [
        *(content.dataType, content.dims, content.constantId, content.memoryId),
        *(content.storageType, content.memoryLayout, content.stagingDataType),
    ]


def theirs(value: Any) -> tuple[str, Any]:
    return type(value).__name__, [getattr(value, each.name) for each in dataclasses.fields(value)]


def test_values_are_of_all_kinds() -> None:
    kinds = set(typing.get_args(peer.GraphTypes))
    assert {type(value) for value in VALUES} == kinds
    names = {name for name in vars(schema.Content) if name[0].isupper()} - {"NONE"}
    assert {kind.__name__.removeprefix("Vk") for kind in kinds} == names


def test_our_reader_reads_every_kind_of_value() -> None:
    tensors = [torch.tensor([True]), torch.arange(7, dtype=torch.int8)]
    blob = read_blob(memoryview(serialize_vulkan_graph(graph_of(VALUES, []), tensors, [])))
    assert contents(blob) == [theirs(value) for value in VALUES]
    assert [bytes(blob.constants[c.offset : c.offset + c.length]) for c in blob.graph.constants] == [
        tensor.numpy().tobytes() for tensor in tensors
    ]
    assert [(call.nodeId, call.name.decode(), list(call.args)) for call in blob.graph.chain] == [
        (3, "aten.cat.default", list(range(len(VALUES)))),
        (4, "aten.sin.default", [0, 0]),
    ]
    assert (list(blob.graph.inputIds), list(blob.graph.outputIds)) == ([0], [0, 0])
    assert (blob.graph.storageTypeOverride, blob.graph.memoryLayoutOverride) == (0, 1)
    assert "aten.cat.default(" in format_blob_graph(blob_graph(blob))


def test_the_peer_reads_every_kind_of_value() -> None:
    constants = [peer.VkBytes(NAMED, 1, _KEY), peer.VkBytes(NAMED, 7, _KEY)]
    wanted = graph_of(VALUES, [])
    named = [(each.named_key, each.length) for each in constants]
    ours = join(
        write_blob(read_blob(memoryview(serialize_vulkan_graph(wanted, named, []))).graph, checked=False)
    )
    assert flatbuffer_to_vk_graph(extract_vk_flatbuffer(ours)) == graph_of(VALUES, constants)


@pytest.mark.parametrize("options", [{}, {"precision": "fp16"}, {"storage": "buffer"}])
def test_the_peer_reads_a_compiled_blob(options: dict[str, str], tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers = (torch.nn.Conv2d(2, 4, 3), torch.nn.GELU("tanh"), torch.nn.AvgPool2d(2), torch.nn.Flatten())
    compiled = compile_module(torch.nn.Sequential(*layers), (torch.randn(1, 2, 8, 8),), **options)
    (data,) = compiled.blobs()
    header = VulkanDelegateHeader.from_bytes(data[: VulkanDelegateHeader.EXPECTED_LENGTH])
    assert header.is_valid()
    assert (header.flatbuffer_offset % 16, header.bytes_offset, header.bytes_size) == (0, len(data), 0)
    found = flatbuffer_to_vk_graph(extract_vk_flatbuffer(data))
    blob = read_blob(memoryview(data))
    assert [theirs(each.value) for each in found.values] == contents(blob)
    assert [(each.node_id, each.name, each.args) for each in found.chain] == [
        (call.nodeId, call.name.decode(), list(call.args)) for call in blob.graph.chain
    ]
    assert [each.named_key for each in found.constants] == list(compiled.delegates[0].named_data)
    assert {each.offset for each in found.constants} == {NAMED}
    assert _annotated(extract_vk_flatbuffer(data), tmp_path)


def _annotated(flatbuffer: bytes, folder: Path) -> bool:
    """Whether flatc finds the tables of the peer's schema in a FlatBuffer, and no fault."""
    (folder / "graph.bin").write_bytes(flatbuffer)
    source = folder / "schema.fbs"
    source.write_bytes(importlib.resources.files(serialization).joinpath("schema.fbs").read_bytes())
    flatc = Path(next(iter(executorch.__path__))) / "data/bin/flatc"
    subprocess.run([flatc, "--annotate", source, folder / "graph.bin"], check=True, cwd=folder)
    text = (folder / "graph.afb").read_text()
    return "VkGraph" in text and "ERROR" not in text
