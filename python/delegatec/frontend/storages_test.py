# SPDX-License-Identifier: Apache-2.0
"""Tests of storages."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import torch
from hypothesis import given
from hypothesis import strategies as st

from delegatec.frontend.storages import regions


def restored(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for region in regions(tensors):
        content = bytearray(region.bytes())
        assert len(content) == region.end - region.start
        for name, tensor in region.members:
            flat = (
                torch.frombuffer(content, dtype=tensor.dtype)
                if content
                else torch.empty(0, dtype=tensor.dtype)
            )
            found[name] = torch.as_strided(flat, tensor.shape, tensor.stride(), region.offset(tensor))
    return found


@st.composite
def views(draw: st.DrawFn) -> dict[str, torch.Tensor]:
    bases = [torch.arange(60, dtype=torch.float32), torch.arange(60, dtype=torch.int16).flip(0)]
    tensors = {}
    for index in range(draw(st.integers(1, 6))):
        base = bases[draw(st.integers(0, 1))]
        rank = draw(st.integers(0, 3))
        shape = [draw(st.integers(0, 3)) for _ in range(rank)]
        stride = [draw(st.integers(0, 6)) for _ in range(rank)]
        offset = draw(st.integers(0, 60 - 1 - sum(2 * step for step in stride)))
        tensors[f"t{index}"] = base.as_strided(shape, stride, offset)
    return tensors


@given(views())
def test_any_views_come_back(tensors: dict[str, torch.Tensor]) -> None:
    found = restored(tensors)
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(found[name], tensor)


@given(views())
def test_bytes_do_not_depend_on_gaps(tensors: dict[str, torch.Tensor]) -> None:
    # The same aliasing in other storages, whose remaining bytes are random.
    moved: dict[str, torch.Tensor] = {}
    for region in regions(tensors):
        dtype = region.members[0][1].dtype
        size = (region.end - region.start) // dtype.itemsize
        memory = torch.randint(-100, 100, (size + 7,)).to(dtype)
        for name, tensor in region.members:
            moved[name] = memory.as_strided(tensor.shape, tensor.stride(), 5 + region.offset(tensor))
        for name, tensor in region.members:
            for index in itertools.product(*map(range, tensor.shape)):
                moved[name][index] = tensor[index]
    ordered = {name: moved[name] for name in tensors}
    assert [bytes(region.bytes()) for region in regions(ordered)] == [
        bytes(r.bytes()) for r in regions(tensors)
    ]


def test_a_slice_of_a_large_storage_is_stored_alone() -> None:
    large = torch.arange(1000.0)
    (region,) = regions({"a": large[10:14]})
    assert region.end - region.start == 16
    assert region.bytes().nbytes == 16


def test_tied_tensors_are_one_region_and_neighbors_are_two() -> None:
    memory = torch.arange(8.0)
    found = regions({"left": memory[:4], "right": memory[4:], "tied": memory[:4].view(2, 2)})
    assert [[name for name, _ in region.members] for region in found] == [["left", "tied"], ["right"]]


def test_bytes_of_a_dense_tensor_are_not_copied() -> None:
    weight = torch.zeros(4, 3).t()
    (region,) = regions({"weight": weight})
    content = region.bytes()
    weight[0, 0] = 1.0
    assert bytes(content[:4]) == b"\x00\x00\x80\x3f"
