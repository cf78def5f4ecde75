# SPDX-License-Identifier: Apache-2.0
"""The graph of a blob as text and as plain values."""

from __future__ import annotations

import torch
from delegatec_schemas import vulkan_graph as schema
from torch import nn

from delegatec.backends.vulkan.backend import VULKAN
from delegatec.backends.vulkan.blob import read_blob, write_blob
from delegatec.backends.vulkan.memory.sharing import PREPACK
from delegatec.backends.vulkan.testing import compile_module
from delegatec.delegation import BlobGraph, BlobLabels, blob_graph_json, format_blob_graph
from delegatec.delegation.protocol.parts import join

CLASSIFIER = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 8))
IMAGE = torch.randn(1, 1, 6, 6)


def graph(module: nn.Module, *args: torch.Tensor) -> BlobGraph:
    """Returns the graph of a module's delegate."""
    return VULKAN.graph(memoryview(compile_module(module, args).blobs()[0]))


def test_results_have_their_memory_and_arguments_their_names() -> None:
    lines = format_blob_graph(graph(CLASSIFIER, IMAGE)).splitlines()
    (convolution,) = (line for line in lines if "conv_with_clamp" in line and "=" in line and "%" in line)
    assert "stride=[1, 1], padding=[0, 0]," in convolution and "minimum=0, maximum=inf" in convolution
    assert "# texture, channels packed, memory 1, 256 B" in convolution
    assert [line for line in lines if "view_copy.default(" in line and "size=[1, 64]" in line]


def test_scalars_of_the_caller_and_constants_packed_to_no_tensor() -> None:
    """Blobs of other writers have scalars among their inputs."""
    blob = read_blob(memoryview(compile_module(CLASSIFIER, (IMAGE,)).blobs()[0]))
    blob.graph.values.append(schema.ValueT(schema.Content.SymInt, schema.SymIntT(4)))
    number = len(blob.graph.values) - 1
    blob.graph.inputIds.append(number)
    blob.graph.chain[0].name, blob.graph.chain[0].args = PREPACK, [number]
    found = VULKAN.graph(memoryview(join(write_blob(blob.graph))))
    lines = [" ".join(line.split()) for line in format_blob_graph(found).splitlines()]
    assert f"%{number} i32[] = input scalar" in lines
    assert found.totals["packed_bytes"] == 0


def test_notes_have_memory_and_transitions() -> None:
    assert graph(CLASSIFIER, IMAGE).notes[-1] == "transitions between storages or layouts: none"
    found = graph(nn.Sequential(nn.MaxPool2d(1), nn.Linear(6, 4)), IMAGE)
    (clone,) = (node for node in found.nodes if node.operation == "aten.clone.default")
    assert clone.attributes["transition"] == "texture, channels packed to buffer"
    ((_, source),) = clone.operands
    assert (
        f": 1, moving {found.totals['moved_bytes']:,} B: %{source} to %{clone.results[0]}" in found.notes[-1]
    )
    assert f"in {found.totals['allocations']} allocations, shared by" in found.notes[0]
    assert found.totals["device_bytes"] <= found.totals["tensor_bytes"]


def test_constants_have_the_names_of_weights() -> None:
    """Also after they are packed: an operand that is not a constant has no name."""
    (delegate,) = compile_module(nn.Sequential(CLASSIFIER, nn.LayerNorm(8)), (IMAGE,)).delegates
    found = VULKAN.graph(memoryview(delegate.blob_bytes()))
    names = delegate.constant_names
    assert {names[id] for id in found.constants if id in names} == set(names.values())
    assert not set(found.inputs) & set(names)


def test_plain_values() -> None:
    found = graph(CLASSIFIER, IMAGE)
    (weight, *_) = found.constants
    plain = blob_graph_json(found, BlobLabels(names={weight: "0.weight"}, lines={"0": "model.py:3"}))
    values = {value["id"]: value for value in plain["values"]}
    assert values[weight]["name"] == "0.weight" and values[weight]["constant"]
    first = plain["operations"][0]
    assert first["source"] == "model.py:3" and first["operands"][1] == {"id": weight}
    result = values[first["results"][0]]
    assert (result["dtype"], result["shape"]) == ("f32", [1, 4, 4, 4])
    assert (result["storage"], result["memory"], result["bytes"]) == ("texture, channels packed", 1, 256)
    assert plain["totals"]["transitions"] == 0
