# SPDX-License-Identifier: Apache-2.0
"""Offsets of constants: aligned, disjoint but for views of each other."""

from __future__ import annotations

import random

import pytest

from delegatec.delegation import ComputedBytes, NamedData, Part
from delegatec.diagnostics import DelegatecError
from delegatec.program.emitted import EmittedProgram
from delegatec.program.file.layout import lay_out, pack
from delegatec.program.options import ProgramOptions


def _read(parts: list[tuple[int, bytes | memoryview]]) -> bytes:
    content = bytearray(max((offset + len(part) for offset, part in parts), default=0))
    for offset, part in parts:
        content[offset : offset + len(part)] = part
    return bytes(content)


@pytest.mark.parametrize("alignment", [16, 64])
def test_views_of_one_run_are_stored_once(alignment: int) -> None:
    random_bytes = random.Random(0).randbytes
    run = memoryview(random_bytes(1000))
    other = memoryview(random_bytes(100))
    items = [run[64:200], other, run, run[1:40], run[128:], memoryview(b"")]
    offsets, parts = pack(items, alignment)
    content = _read(parts)
    assert offsets[0] == 0
    for item, offset in zip(items, offsets[1:], strict=True):
        assert offset % alignment == 0 and content[offset : offset + len(item)] == item
    # the one that is not aligned is stored for itself
    assert {len(part) for _, part in parts} == {1000, 100, 39, 0}


def test_runs_that_overlap_in_part_are_stored_both() -> None:
    run = memoryview(bytes(range(200)))
    items = [run[:128], run[64:], run[64:96]]
    offsets, parts = pack(items, 16)
    content = _read(parts)
    assert len(parts) == 2
    for item, offset in zip(items, offsets[1:], strict=True):
        assert content[offset : offset + len(item)] == item


def test_equal_data_is_stored_separately_on_request() -> None:
    data = {key: NamedData(b"1234", is_separate=key in "cd") for key in "abcd"}
    layout = lay_out(EmittedProgram([], named_data=data))
    assert layout.named["a"] == layout.named["b"]
    assert len({*layout.named.values()}) == len(layout.segments.spans) == 3


@pytest.mark.parametrize("alignment", [1, 128, 4096])
def test_a_constant_is_also_named_data(alignment: int) -> None:
    """As the weight of a layer that is tied to an embedding; other keys have separate data."""
    constants: list[Part] = [b"x" * 16, b"y" * 300, b"z" * 300]
    data = {
        "a": NamedData(b"z" * 300, is_separate=True),
        "b": NamedData(b"z" * 300, is_separate=True),
        "c": NamedData(b"y" * 299 + b"x", 256),
        "d": NamedData(_Letters("y", 300), 512),
    }
    options = ProgramOptions(segment_alignment=alignment, constant_alignment=16)
    layout = lay_out(EmittedProgram([], constants=constants, named_data=data, options=options))
    content = bytearray(layout.segments.size)
    for (start, _), parts in zip(layout.segments.spans, layout.segments.parts, strict=True):
        assert start % alignment == 0
        for offset, part in parts:
            assert not any(content[start + offset : start + offset + len(part)])
            content[start + offset : start + offset + len(part)] = part[: len(part)]
    for key, item in data.items():
        start, size = layout.segments.spans[layout.named[key]]
        assert content[start : start + size] == item.data[: len(item.data)]
        assert start % item.alignment == 0
    stored = {key: bool(layout.segments.parts[index]) for key, index in layout.named.items()}
    assert stored == {"a": False, "b": True, "c": True, "d": False}


class _Letters(ComputedBytes):
    def __init__(self, letter: str, count: int) -> None:
        self._bytes = letter.encode() * count

    def __len__(self) -> int:
        return len(self._bytes)

    def __getitem__(self, span: slice) -> bytes:
        return self._bytes[span]


@pytest.mark.parametrize("value", [0, -16, 3, 24, 2**31])
def test_alignments_are_powers_of_two(value: int) -> None:
    with pytest.raises(DelegatecError) as caught:
        ProgramOptions(segment_alignment=value, constant_alignment=value, delegate_alignment=value)
    assert [d.code for d in caught.value.diagnostics] == ["DC310"] * 3


def test_constants_are_aligned_for_kernels() -> None:
    with pytest.raises(DelegatecError, match="constant_alignment cannot be 8"):
        ProgramOptions(segment_alignment=1, constant_alignment=8, delegate_alignment=1)
