# SPDX-License-Identifier: Apache-2.0
"""Scaled weights have the values of an eager product in float64, rounded once, without its memory."""

from __future__ import annotations

import io

import pytest
import torch

from delegatec.edge.scaled import ScaledTensor

SOURCE = torch.randn(6, 5, 3, generator=torch.Generator().manual_seed(0))
SCALE = torch.rand(6, generator=torch.Generator().manual_seed(1), dtype=torch.float64) - 0.5
WANTED = (SOURCE.double() * SCALE.view(6, 1, 1)).float()


@pytest.mark.parametrize("start, end", [(0, 90), (0, 1), (14, 16), (15, 30), (31, 89), (40, 40), (89, 1000)])
def test_ranges(start: int, end: int) -> None:
    flat = ScaledTensor(SOURCE, SCALE).detach().reshape(-1)
    assert torch.equal(flat[start:end], WANTED.reshape(-1)[start:end])
    assert type(flat[start:end]) is torch.Tensor


def test_any_operator_reads_its_values() -> None:
    scaled = ScaledTensor(SOURCE, SCALE)
    assert torch.equal(scaled + 1, WANTED + 1) and torch.equal(
        torch.cat([WANTED, scaled]), WANTED.repeat(2, 1, 1)
    )
    assert torch.equal(scaled.mT, WANTED.mT) and torch.equal(scaled[2:4], WANTED[2:4])


def test_permuted_rows_are_scaled_later() -> None:
    scaled = ScaledTensor(SOURCE, SCALE)
    moved = scaled.permute(0, 2, 1)
    assert isinstance(moved, ScaledTensor) and moved.data_ptr() != scaled.data_ptr()
    assert torch.equal(moved.computed(), WANTED.permute(0, 2, 1))
    assert torch.equal(moved.reshape(6, -1)[:, 2], WANTED[:, 2, 0])


def test_scales_of_more_than_rows_are_moved_with_their_elements() -> None:
    """Groups of rows, and rows inside of filters: the scales stayed where they were."""
    scaled = ScaledTensor(SOURCE, SCALE).view(2, 3, 15)
    assert torch.equal(scaled.permute(0, 2, 1), WANTED.view(2, 3, 15).permute(0, 2, 1))


def test_views_have_no_memory_and_one_address() -> None:
    scaled = ScaledTensor(SOURCE, SCALE)
    views = [scaled.detach(), scaled.view(2, 3, -1), scaled.reshape(-1).view(30, 3), scaled.contiguous()]
    assert all(isinstance(view, ScaledTensor) and view.data_ptr() == scaled.data_ptr() for view in views)
    assert [tuple(view.shape) for view in views] == [(6, 5, 3), (2, 3, 15), (30, 3), (6, 5, 3)]
    assert all(torch.equal(view.computed().view(-1), WANTED.view(-1)) for view in views)  # type: ignore[attr-defined]
    assert scaled.data_ptr() not in (SOURCE.data_ptr(), ScaledTensor(SOURCE, SCALE.clone()).data_ptr())


def test_scaled_twice() -> None:
    wanted = (WANTED.double() * SCALE.view(6, 1, 1)).float()
    assert torch.equal(ScaledTensor(ScaledTensor(SOURCE, SCALE), SCALE).computed(), wanted)


def test_empty() -> None:
    assert ScaledTensor(torch.empty(3, 0), torch.ones(3, dtype=torch.float64)).computed().shape == (3, 0)


def test_saved_as_a_tensor() -> None:
    file = io.BytesIO()
    torch.save({"weight": ScaledTensor(SOURCE, SCALE)}, file)
    file.seek(0)
    loaded = torch.load(file)["weight"]
    assert type(loaded) is torch.Tensor and torch.equal(loaded, WANTED)
