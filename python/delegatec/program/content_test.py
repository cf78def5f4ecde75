# SPDX-License-Identifier: Apache-2.0
"""Equal runs of bytes are found, and no others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegatec.delegation import Part
from delegatec.delegation.testing import Counting
from delegatec.program import content
from delegatec.program.content import ContentIndex


@given(st.lists(st.lists(st.binary(max_size=70), max_size=3), max_size=12))
def test_equal_runs_have_one_number(runs: list[list[bytes]]) -> None:
    index = ContentIndex()
    indices = [index.find_or_add(run, position) for position, run in enumerate(runs)]
    assert indices == [runs.index(run) for run in runs]


def test_one_byte_makes_a_difference_anywhere() -> None:
    index = ContentIndex()
    size = 3 * 2**20 + 5
    assert index.find_or_add([bytes(size)], 0) == 0
    for number, position in enumerate((0, 77, 2**20, size - 1), start=1):
        changed = bytearray(size)
        changed[position] = 1
        assert index.find_or_add([bytes(changed)], number) == number
    assert index.find_or_add([memoryview(bytearray(size))], 9) == 0


def test_bytes_are_read_only_if_others_have_the_same_size() -> None:
    index = ContentIndex()
    first, other, equal = Counting(999), Counting(999, 1), Counting(999)
    assert [index.find_or_add([first], 0), index.find_or_add([Counting(998)], 1)] == [0, 1]
    assert first.largest_request == 0
    assert [index.find_or_add([other], 2), index.find_or_add([equal], 3)] == [2, 0]


def test_many_sequences_with_equal_samples_are_compared_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    equal = content.equal_bytes

    def counted(first: Part, second: Part) -> bool:
        compared.append(len(first))
        return equal(first, second)

    monkeypatch.setattr(content, "equal_bytes", counted)
    index = ContentIndex()
    made = [[bytes(4000) + number.to_bytes(4, "big")] for number in range(200)]
    assert [index.find_or_add(parts, number) for number, parts in enumerate(made)] == [*range(200)]
    assert len(compared) < 20
    assert [index.find_or_add(parts, 999) for parts in made] == [*range(200)]
    assert len(compared) < 20 + 200
