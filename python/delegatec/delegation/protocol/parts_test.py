# SPDX-License-Identifier: Apache-2.0
"""Bytes that are computed when they are asked for are asked for some at a time."""

from __future__ import annotations

from delegatec.delegation import ComputedBytes
from delegatec.delegation.protocol.parts import chunks, join
from delegatec.delegation.testing import Counting


def test_pieces_of_what_there_is_and_of_what_is_computed() -> None:
    computed = Counting(600_000)
    view = memoryview(b"view")
    assert [*chunks(view)] == [view]
    assert [len(piece) for piece in chunks(computed)] == [262_144, 262_144, 75_712]
    assert join([b"head", computed, view]) == b"head" + computed[0:600_000] + b"view"
    assert [*chunks(Counting(0))] == []


def test_only_computed_bytes_are_computed() -> None:
    assert not isinstance(b"", ComputedBytes) and isinstance(Counting(1), ComputedBytes)
