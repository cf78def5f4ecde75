# SPDX-License-Identifier: Apache-2.0
"""The graph of a blob as text and as plain values."""

from __future__ import annotations

import torch
from torch import nn

from delegatec.backends.xnnpack.backend import XNNPACK
from delegatec.backends.xnnpack.testing import compile_module
from delegatec.backends.xnnpack.testing.reference.table import CASES
from delegatec.delegation import BlobGraph, BlobLabels, blob_graph_json, format_blob_graph
from delegatec.delegation.blobs.blob_graph import Family

ROWS = torch.randn(3, 8)


def graph_of(name: str) -> BlobGraph:
    """Returns the graph of a case."""
    (case,) = (case for case in CASES if case.name == name)
    return XNNPACK.graph(memoryview(case.blob().data()))


def test_every_case_has_a_text_with_all_of_its_nodes() -> None:
    for case in CASES:
        found = XNNPACK.graph(memoryview(case.blob().data()))
        text = format_blob_graph(found)
        assert case.operation in text
        assert len(found.inputs) == len(case.inputs) and not found.dead


def test_values_have_their_scales_and_constants_their_offset() -> None:
    found = graph_of("FullyConnected-dynamic-float32-groups-2")
    (filter,) = found.constants
    assert (found.values[filter].dtype, found.values[filter].bytes) == ("i4", 13 * 64 // 2)
    assert found.values[filter].note == "26 scales, of groups of 32, named data"
    rows = found.values[found.nodes[0].results[0]]
    assert (rows.dtype, rows.note) == ("i8", "dynamic scales of rows")
    quantized_values = graph_of("FullyConnected-i8-channels-bias")
    notes = [value.note for value in quantized_values.values.values()]
    assert "scale 0.03, zero point 3" in notes and "13 scales along dimension 0, named data" in notes
    assert (
        "at 1936"
        in graph_of("FullyConnected-inline").values[graph_of("FullyConnected-inline").constants[1]].note
    )


def test_notes_have_the_sizes_of_constants() -> None:
    found = graph_of("FullyConnected-dynamic-float32-channels-2-bias")
    assert found.notes == ("copied into memory of the runtime when it is loaded: 884 B",)
    wanted = {"constants": 2, "constant_bytes": 884, "packed_bytes": 884, "f32_bytes": 52, "i8_bytes": 832}
    assert found.totals == {**wanted, "conversions": 1}
    assert graph_of("Add-row-f32").notes == ()
    assert graph_of("Prelu-row-f32").totals["packed_bytes"] == 0


def test_attributes_are_those_that_differ_from_the_usual() -> None:
    (node,) = graph_of("Convolution-pads-f32-f32-f32-limits").nodes
    assert node.family is Family.COMPUTE
    assert node.attributes["padding_right"] == "2" and "padding_bottom" not in node.attributes
    assert node.attributes["least"] == "-0.7" and node.attributes["most"] == "1.3"
    assert "groups" not in node.attributes and "dilation_height" not in node.attributes
    assert [role for role, _ in node.operands] == ["", "filter", "bias"]
    (transposed,) = graph_of("Transpose-f32").nodes
    assert transposed.attributes == {"permutation": "[2, 0, 1]"} and transposed.family is Family.MOVE


def test_plain_values_with_names_of_weights() -> None:
    (delegate,) = compile_module(nn.Sequential(nn.Linear(8, 4), nn.ReLU()), (ROWS,)).delegates
    found = XNNPACK.graph(memoryview(delegate.blob_bytes()))
    assert set(delegate.constant_names) == set(found.constants)
    plain = blob_graph_json(found, BlobLabels(names=delegate.constant_names, lines={"0": "model.py:3"}))
    named = {value["name"] for value in plain["values"] if "name" in value}
    assert named == set(delegate.constant_names.values())
    assert plain["operations"][0]["source"] == "model.py:3"


def test_a_bias_that_is_also_read_is_two_values_of_one_name() -> None:
    """The runtime frees the value that a layer packs."""

    class Scaled(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * self.bias

    (delegate,) = compile_module(Scaled(8, 4), (ROWS,)).delegates
    found = XNNPACK.graph(memoryview(delegate.blob_bytes()))
    assert [delegate.constant_names[id] for id in found.constants] == ["weight", "bias", "bias"]
    assert len(delegate.named_data) == 2


def test_weights_that_passes_arrange_keep_their_names() -> None:
    """The columns of the linear layer follow the pixels of channels-last images."""
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(16, 2)).eval()
    (delegate,) = compile_module(network, (torch.randn(1, 3, 4, 4),)).delegates
    assert {*delegate.constant_names.values()} == {"0.weight", "0.bias", "2.weight", "2.bias"}
