# SPDX-License-Identifier: Apache-2.0
"""Checksums of ranges from those of ranges inside them."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest

from delegatec.program.file.checksums import checksums, combined

CONTENT = np.random.default_rng(0).bytes(1 << 20)


@pytest.mark.parametrize("first", [0, 1, 777])
@pytest.mark.parametrize("second", [0, 1, 2, 255, 65_537, 1 << 20])
def test_checksums_of_parts_are_combined(first: int, second: int) -> None:
    parts = CONTENT[:first], CONTENT[-second:] if second else b""
    before, after = map(zlib.crc32, parts)
    assert combined(before, after, second) == zlib.crc32(b"".join(parts))


@pytest.mark.parametrize(
    "known",
    [[], [(0, 1 << 20)], [(10, 90), (100, 5), (300, 1 << 18)], [(0, 7), ((1 << 20) - 3, 3)]],
)
def test_only_unknown_ranges_are_read(known: list[tuple[int, int]], tmp_path: Path) -> None:
    # Bytes of known ranges are not in the file.
    content = bytearray(CONTENT)
    for start, size in known:
        content[start : start + size] = bytes(size)
    path = tmp_path / "file"
    path.write_bytes(content)
    found = {(start, size): zlib.crc32(CONTENT[start : start + size]) for start, size in known}
    assert checksums(path, [(0, 1 << 20)], found) == [zlib.crc32(CONTENT)]


def test_ranges_that_cut_known_ones_are_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    known = {(100, 50): 0, (200, 50): zlib.crc32(CONTENT[200:250]), (300, 50): 0}
    ranges = [(120, 220), (200, 50), (0, 0), (200, 49), (201, 49)]
    expected = [zlib.crc32(CONTENT[start : start + size]) for start, size in ranges]
    assert checksums(path, ranges, known) == expected
