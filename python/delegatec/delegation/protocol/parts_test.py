# SPDX-License-Identifier: Apache-2.0
"""Computed bytes are requested in chunks."""

from __future__ import annotations

from delegatec.delegation import ComputedBytes
from delegatec.delegation.protocol.parts import chunks, join
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
