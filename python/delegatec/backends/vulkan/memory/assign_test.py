# SPDX-License-Identifier: Apache-2.0
"""Representations and transitions of models."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from delegatec_schemas import vulkan_graph as schema
from torch import nn

from delegatec.backends.common.testing import Call
from delegatec.backends.vulkan.memory.representation import (
    Limits,
    Representation,
    extents,
    fits,
    stored_elements,
)
from delegatec.backends.vulkan.memory.sharing import PREPACK, allocated_bytes, stored_bytes
from delegatec.backends.vulkan.testing import compile_module, graph_of, name_of

KNOWN = {each.value: each.name for each in Representation}


def lines(module: nn.Module, *args: torch.Tensor, **options: str) -> list[str]:
    """Returns each call of the delegate with the representation of its first result."""
    graph = graph_of(compile_module(module, args, **options))
    return [f"{name_of(call)} {_representation(graph, call.args[-1])}" for call in graph.chain]


def _representation(graph: schema.GraphT, id: int) -> str:
    value = graph.values[id]
    if value.contentType == schema.Content.ValueList:
        return _representation(graph, value.content.items[0])
    return KNOWN[value.content.storageType, value.content.memoryLayout]


def test_a_classifier_has_no_transition() -> None:
    """The view between convolution and product changes the layout."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 16))
    assert lines(model, torch.randn(1, 3, 8, 8)) == [
        "conv_with_clamp CHANNELS",
        "max_pool2d_with_indices CHANNELS",
        "view_copy WIDTH",
        "linear WIDTH",
    ]


def test_consumers_share_a_transition() -> None:
    pool, product = nn.MaxPool2d(1), nn.Linear(4, 4)

    def forward(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = product(x)
        return product(y), pool(y), pool(y + 1) + pool(y)

    found = lines(Call(forward), torch.randn(1, 4, 4, 4))
    assert found.count("clone CHANNELS") == 1


def test_an_input_is_copied_where_it_is_needed() -> None:
    assert lines(nn.MaxPool2d(2), torch.randn(1, 3, 4, 4)) == ["max_pool2d_with_indices CHANNELS"]


@pytest.mark.parametrize(
    "rows, terms, precision, expected",
    [
        (4, 512, "fp32", "BUFFER"),
        (4, 256, "fp16", "BUFFER"),
        (4, 512, "fp16", "WIDTH"),
        # beyond the height of a texture
        (20000, 512, "fp16", "BUFFER"),
    ],
)
def test_long_sums_of_float16_are_computed_in_float32(
    rows: int, terms: int, precision: str, expected: str
) -> None:
    product = nn.Linear(terms, 4)
    found = lines(product, torch.empty(rows, terms), precision=precision, storage="buffer")
    assert f"linear {expected}" in found


def test_lists_have_one_representation() -> None:
    pool, product = nn.MaxPool2d(1), nn.Linear(4, 4)
    found = lines(Call(lambda x: torch.cat([pool(x), product(x), pool(x)])), torch.randn(1, 4, 4, 4))
    # the input for one of the layers, and the result of one of them
    assert len([line for line in found if line.startswith("clone")]) == 2


def test_constants_are_packed_once_for_each_representation() -> None:
    pool = nn.MaxPool2d(1)
    table = torch.randn(1, 4, 4, 4)
    found = lines(Call(lambda x: pool(x + table) * table), torch.randn(1, 4, 4, 4))
    assert [line for line in found if line.startswith("prepack")] == ["prepack CHANNELS"]


def test_what_is_too_large_for_a_texture_is_a_buffer() -> None:
    x = torch.randn(8200, 8)
    assert lines(nn.ReLU(), x) == ["relu WIDTH"]
    assert lines(nn.ReLU(), x, textures="desktop") == ["relu BUFFER"]
    assert lines(nn.ReLU(), x, storage="buffer") == ["relu BUFFER"]
    assert lines(nn.ReLU(), torch.randn(2, 2, 2, 2, 2)) == [
        "view_copy BUFFER",
        "relu BUFFER",
        "view_copy BUFFER",
    ]


@pytest.mark.parametrize(
    ("representation", "wanted", "elements"),
    [
        (Representation.WIDTH, (2, 6, 10), 480),
        (Representation.HEIGHT, (7, 2, 10), 560),
        (Representation.CHANNELS, (7, 6, 4), 672),
    ],
)
def test_extents(representation: Representation, wanted: tuple[int, ...], elements: int) -> None:
    assert extents((2, 5, 6, 7), representation) == wanted
    assert stored_elements((2, 5, 6, 7), representation) == elements
    assert fits((2, 5, 6, 7), representation, Limits(*wanted))
    assert not any(fits((2, 5, 6, 7), representation, Limits(*_less(wanted, axis))) for axis in range(3))


def _less(sizes: tuple[int, ...], axis: int) -> list[int]:
    return [size - (dim == axis) for dim, size in enumerate(sizes)]


def _lives(graph: schema.GraphT) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for step, ids in enumerate([graph.inputIds, *(call.args for call in graph.chain), graph.outputIds]):
        for id in (each for listed in ids for each in _tensors(graph, listed)):
            found[id] = (found.get(id, (step, step))[0], step)
    return found


def _tensors(graph: schema.GraphT, id: int) -> list[int]:
    content: Any = graph.values[id].content
    if isinstance(content, schema.ValueListT):
        return [each for item in content.items for each in _tensors(graph, item)]
    return [id] if isinstance(content, schema.TensorT) else []


def test_tensors_that_live_together_do_not_share_memory() -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    graph = graph_of(compile_module(nn.Sequential(layer, layer), (torch.randn(2, 8, 16),)))
    lives = _lives(graph)
    users: dict[int, list[int]] = {}
    for id in lives:
        if graph.values[id].content.memoryId >= 0:
            users.setdefault(graph.values[id].content.memoryId, []).append(id)
    for ids in users.values():
        ordered = sorted(lives[id] for id in ids)
        assert all(first[1] < second[0] for first, second in itertools.pairwise(ordered))
    total = sum(stored_bytes(graph.values[id].content) for ids in users.values() for id in ids)
    assert allocated_bytes(graph) * 4 < total
    packed = [call.args[-1] for call in graph.chain if call.name.decode() == PREPACK]
    assert all(graph.values[id].content.memoryId < 0 for id in packed)


def test_layouts_of_other_writers_count_without_padding() -> None:
    tensor = schema.TensorT(
        dataType=schema.DataType.INT8,
        dims=[1, 3, 5, 7],
        storageType=schema.StorageType.BUFFER,
        memoryLayout=schema.MemoryLayout.INT8_CONV2D,
    )
    assert stored_bytes(tensor) == 1 * 3 * 5 * 7
    tensor.memoryLayout = schema.MemoryLayout.INT8_4W4C
    assert stored_bytes(tensor) == 1 * 4 * 5 * 8
