# SPDX-License-Identifier: Apache-2.0
"""Constants are stored once, unchanged."""

from __future__ import annotations

import pytest
import torch

from delegatec.delegation.protocol.parts import tensor_bytes
from delegatec.program.constants import ConstantPool

LARGE = torch.arange(4000.0)


def _bytes(pool: ConstantPool, index: int) -> bytes:
    return bytes(pool.data[index - 1])


def test_indices_start_at_one() -> None:
    pool = ConstantPool()
    assert [pool.add(torch.tensor([value]), str(value)) for value in (5, 6, 7)] == [1, 2, 3]
    assert pool.names == [("5",), ("6",), ("7",)]


def test_tied_weights_are_one_with_two_names() -> None:
    pool = ConstantPool()
    assert pool.add(LARGE, "b.weight") == pool.add(LARGE, "a.weight") == 1
    assert pool.names == [("a.weight", "b.weight")]


def test_the_same_memory_in_another_shape_is_the_same_constant() -> None:
    pool = ConstantPool()
    assert pool.add(LARGE, "a") == pool.add(LARGE.view(40, 100), "b")


def test_a_part_is_another_constant() -> None:
    pool = ConstantPool()
    assert pool.add(LARGE, "a") != pool.add(LARGE[:2000], "b")


def test_small_equal_constants_are_one() -> None:
    pool = ConstantPool()
    assert pool.add(torch.ones(10), "a") == pool.add(torch.ones(10), "b")
    assert pool.add(torch.zeros(4), "c") == pool.add(torch.zeros(2, dtype=torch.int64), "d"), "by their bytes"
    assert pool.add(torch.zeros(1), "e") != pool.add(-torch.zeros(1), "f")


def test_large_equal_constants_are_one() -> None:
    pool = ConstantPool()
    other = LARGE.clone()
    assert pool.add(LARGE, "a") == pool.add(other, "b") == pool.add(LARGE.view(2, -1), "c")
    # at a position that samples miss
    other[1234] += 1
    assert pool.add(other.clone(), "d") == 2
    assert pool.names == [("a", "b", "c"), ("d",)]


def test_a_temporary_tensor_is_kept() -> None:
    pool = ConstantPool()
    indices = [pool.add(torch.full((4000,), float(value)), str(value)) for value in range(20)]
    assert len(set(indices)) == 20
    for index in indices:
        assert _bytes(pool, index) == torch.full((4000,), float(index - 1)).numpy().tobytes()


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (torch.tensor(1.0), b"\x00\x00\x80\x3f"),
        (torch.tensor([True, False]), b"\x01\x00"),
        (torch.tensor([1.0, -2.0], dtype=torch.bfloat16), b"\x80\x3f\x00\xc0"),
        (torch.tensor([1.0], dtype=torch.float16), b"\x00\x3c"),
        (torch.tensor([-2], dtype=torch.int64), b"\xfe" + b"\xff" * 7),
        (torch.tensor([[1], [2]], dtype=torch.int8), b"\x01\x02"),
        (torch.tensor([float("nan")]), b"\x00\x00\xc0\x7f"),
        (torch.ones(0, 3), b""),
        (torch.arange(6, dtype=torch.uint8)[2:4], b"\x02\x03"),
        (torch.nn.Parameter(torch.tensor([0.0])), b"\x00" * 4),
    ],
    ids=str,
)
def test_bytes(tensor: torch.Tensor, expected: bytes) -> None:
    assert bytes(tensor_bytes(tensor)) == expected


def test_bytes_are_not_copied() -> None:
    tensor = torch.zeros(3, dtype=torch.int32)
    view = tensor_bytes(tensor)
    tensor[1] = 1
    assert bytes(view) == b"\0\0\0\0\1\0\0\0\0\0\0\0"


def test_strides_are_rejected() -> None:
    with pytest.raises(AssertionError, match="not row-major"):
        ConstantPool().add(torch.ones(2, 3).T, "a")


def test_an_empty_constant_has_a_byte() -> None:
    """Without a segment of constants, the runtime looks for those of an older format."""
    pool = ConstantPool()
    assert pool.add(torch.empty(0, 2), "nothing") == 1
    assert [len(data) for data in pool.data] == [1]
