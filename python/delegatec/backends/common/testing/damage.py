# SPDX-License-Identifier: Apache-2.0
"""Damaged copies of a blob, for tests of readers: strategies of hypothesis."""

from __future__ import annotations

import struct

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

_WORDS = 6


def examples(count: int) -> settings:
    """Returns the settings of a test that reads that many damaged blobs, on a machine of any speed."""
    return settings(max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def wrong_words(blob: bytes, end: int) -> st.SearchStrategy[bytes]:
    """Returns copies with up to six other 32-bit words before `end`: small integers, limits, or any."""
    limits = [2**31 - 1, 2**31, 2**32 - 1, 2**32 - 4, end]
    word = st.one_of(st.integers(0, 64), st.sampled_from(limits), st.integers(0, 2**32 - 1))
    edit = st.tuples(st.integers(0, end // 4 - 1), word)

    def edited(edits: list[tuple[int, int]]) -> bytes:
        data = bytearray(blob)
        for position, value in edits:
            struct.pack_into("<I", data, 4 * position, value)
        return bytes(data)

    return st.lists(edit, min_size=1, max_size=_WORDS).map(edited)


def wrong_bits(blob: bytes, begin: int, end: int) -> st.SearchStrategy[bytes]:
    """Returns copies with a flipped bit in [begin, end)."""

    def edited(position: int, bit: int) -> bytes:
        data = bytearray(blob)
        data[position] ^= 1 << bit
        return bytes(data)

    return st.builds(edited, st.integers(begin, end - 1), st.integers(0, 7))


def other_lengths(blob: bytes) -> st.SearchStrategy[bytes]:
    """Returns copies with some bytes removed or duplicated, and up to eight other bytes at that offset."""
    cut = st.integers(0, len(blob))
    return st.builds(
        lambda begin, end, between: blob[:begin] + between + blob[end:], cut, cut, st.binary(max_size=8)
    )
