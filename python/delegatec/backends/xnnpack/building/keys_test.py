# SPDX-License-Identifier: Apache-2.0
"""Layout of constants in a blob."""

from __future__ import annotations

from delegatec.backends.xnnpack.building.keys import inner_constants


def test_inner_constants_are_aligned() -> None:
    offsets, parts = inner_constants({"a": b"123", "b": bytes(16), "c": b"4"})
    assert offsets == {"a": 0, "b": 16, "c": 32}
    # with 16 more bytes that kernels may read
    data = b"".join(bytes(part[0 : len(part)]) for part in parts)
    assert data == b"123" + bytes(13 + 16) + b"4" + bytes(15 + 16)
    assert inner_constants({}) == ({}, [])
