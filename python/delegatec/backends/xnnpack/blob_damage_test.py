# SPDX-License-Identifier: Apache-2.0
"""Damaged bytes and bytes that are not a blob: either they read without an error, or DC407 is raised."""

from __future__ import annotations

import struct
from typing import Final

import pytest
from hypothesis import given

from delegatec.backends.common.testing.damage import examples, other_lengths, wrong_bits, wrong_words
from delegatec.backends.xnnpack.blob import read_blob, write_blob
from delegatec.backends.xnnpack.checking.values import NAMED
from delegatec.backends.xnnpack.graph import blob_graph
from delegatec.backends.xnnpack.reference.testing import network
from delegatec.backends.xnnpack.testing.reference.table import CASES
from delegatec.delegation import format_blob_graph
from delegatec.delegation.protocol.parts import join
from delegatec.diagnostics import DelegatecError

GOOD: Final = network().data()
END: Final = 32 + struct.unpack_from("<I", GOOD, 14)[0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it has 0 bytes, fewer than a header"),
        (bytes(64), "its header is b'\\x00\\x00\\x00\\x00', not b'XH00'"),
        (GOOD[:60], "its header describes a FlatBuffer at 32"),
        (GOOD[:36] + b"XX00" + GOOD[40:], "its FlatBuffer's identifier is b'XX00', not b'XN01'"),
        (GOOD[:14] + bytes(4) + GOOD[18:], "its header describes a FlatBuffer at 32 of 0 bytes"),
        (GOOD[:18] + struct.pack("<I", 40) + GOOD[22:], "constants at 40 of 80 bytes"),
        (GOOD[:22] + struct.pack("<Q", 81) + GOOD[30:], "of 81 bytes"),
        (GOOD[:22] + struct.pack("<Q", 2**64 - 1) + GOOD[30:], "of 18446744073709551615 bytes"),
    ],
)
def test_other_files(data: bytes, message: str) -> None:
    with pytest.raises(DelegatecError, match="DC407") as error:
        read_blob(memoryview(data))
    assert message in str(error.value)


def test_constants_are_not_copied() -> None:
    blob = read_blob(memoryview(GOOD))
    assert len(blob.constants) == 80 and blob.constants.obj is GOOD


def test_the_same_bytes_each_time_and_after_reading() -> None:
    assert network().data() == GOOD
    named = CASES[0].blob()
    assert join(write_blob(read_blob(memoryview(named.data())).graph, checked=False)) == named.data()


def read(data: bytes) -> None:
    """Reads a blob and renders it as text, or raises DC407."""
    try:
        blob = read_blob(memoryview(data))
    except DelegatecError as error:
        assert [diagnostic.code for diagnostic in error.diagnostics] == ["DC407"]
        return
    for each in blob.graph.constants[1:]:
        assert each.offset == NAMED or each.offset + each.size <= len(blob.constants)
    assert format_blob_graph(blob_graph(blob)).count("\n") >= len(blob.graph.nodes)


@examples(500)
@given(wrong_words(GOOD, END))
def test_any_words_may_be_wrong(data: bytes) -> None:
    read(data)


@examples(400)
@given(wrong_bits(GOOD, 32, END))
def test_any_bit_may_be_wrong(data: bytes) -> None:
    read(data)


@examples(200)
@given(other_lengths(GOOD))
def test_bytes_may_be_missing_or_too_many(data: bytes) -> None:
    read(data)
