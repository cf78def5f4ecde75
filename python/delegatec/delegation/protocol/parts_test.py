# SPDX-License-Identifier: Apache-2.0
"""Computed bytes are requested in chunks."""

from __future__ import annotations

import pytest
import torch

from delegatec.delegation import ComputedBytes
from delegatec.delegation.protocol.parts import chunks, join, tensor_bytes
from delegatec.delegation.testing import Counting


def test_chunks_of_stored_and_computed_bytes() -> None:
    computed = Counting(600_000)
    view = memoryview(b"view")
    assert [*chunks(view)] == [view]
    assert [len(piece) for piece in chunks(computed)] == [262_144, 262_144, 75_712]
    assert join([b"head", computed, view]) == b"head" + computed[0:600_000] + b"view"
    assert [*chunks(Counting(0))] == []


def test_only_computed_bytes_are_computed() -> None:
    assert not isinstance(b"", ComputedBytes) and isinstance(Counting(1), ComputedBytes)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float32])
def test_bytes_of_a_column_are_in_one_piece(dtype: torch.dtype) -> None:
    """A slice of one row of an arranged constant is a column of the constant, with its stride."""
    table = torch.arange(12, dtype=dtype).view(3, 4)
    found = tensor_bytes(table.t()[1])
    assert found.contiguous
    assert join([found]) == bytes(tensor_bytes(torch.tensor([1, 5, 9], dtype=dtype)))
