# SPDX-License-Identifier: Apache-2.0
"""Packed weights: words that `mlx.core.dequantize` of MLX 0.31.2 reads as the values, and parts of them."""

from __future__ import annotations

from typing import Final

import pytest
import torch

from delegatec.backends.mlx.building.packing import PackedBytes, Packing, packing_of, unpacked
from delegatec.delegation.protocol.parts import join
from delegatec.edge.quantization.constant import QuantizedConstant

# Bits -> the words of (7 * i + 3) % 2 ** bits, for i from 0 to 31.
WORDS: Final = {
    2: "1b1b1b1b 1b1b1b1b",
    3: "53977053 70539770 97705397",
    4: "4d6f81a3 c5e7092b 4d6f81a3 c5e7092b",
    5: "4dfc4543 78245ba3 0753617d 4b276cf4 e55c7066",
    6: "9f611283 90bbd2d9 b2579740 8f201eb3 9cab91d5 71538703",
    8: "18110a03 342d261f 5049423b 6c655e57 88817a73 a49d968f c0b9b2ab dcd5cec7",
}


def _values(bits: int, offset: int) -> torch.Tensor:
    unsigned = (torch.arange(32) * 7 + 3) % (1 << bits)
    return (unsigned - offset).reshape(1, 32)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32], ids=str)
@pytest.mark.parametrize("bits", WORDS)
def test_words(bits: int, dtype: torch.dtype) -> None:
    offset = 1 << (bits - 1)
    data = join([PackedBytes(_values(bits, offset).to(dtype), Packing(bits, offset, 32, (1, 1)))])
    words = torch.frombuffer(bytearray(data), dtype=torch.uint32)
    assert [f"{word:08x}" for word in words.tolist()] == WORDS[bits].split()
    torch.testing.assert_close(unpacked(words, bits).long() - offset, _values(bits, offset)[0])


@pytest.mark.parametrize("bits", WORDS)
def test_parts_of_a_transposed_matrix(bits: int) -> None:
    """They are those of the whole, although they begin inside of the bytes of several values."""
    values = (
        torch.randint(0, 1 << bits, (64, 3), generator=torch.Generator().manual_seed(0)).to(torch.uint8).T
    )
    packed = PackedBytes(values, Packing(bits, 0, 32, (1, 1)))
    whole = bytes(packed[:])
    assert len(packed) == len(whole) == 3 * 64 * bits // 8
    for start, end in ((0, 1), (1, 5), (2, 40), (7, len(whole))):
        assert bytes(packed[start:end]) == whole[start:end]
    words = torch.frombuffer(bytearray(whole), dtype=torch.uint32).reshape(3, -1)
    assert torch.equal(unpacked(words, bits), values)


@pytest.mark.parametrize(
    ("low", "high", "block", "expected"),
    [
        (-8, 7, (1, 32), Packing(4, 8, 32, (1, 1))),
        (-7, 7, (1, 64), Packing(4, 8, 64, (1, 1))),
        (-8, 8, (1, 64), Packing(5, 16, 64, (1, 1))),
        (0, 15, (1, 384), Packing(4, 0, 128, (1, 3))),
        (3, 17, (2, 96), Packing(4, -3, 32, (2, 3))),
        (-128, 127, (1, 192), Packing(8, 128, 64, (1, 3))),
        (0, 0, (1, 32), Packing(2, 2, 32, (1, 1))),
        (-128, 128, (1, 32), None),
        (-8, 7, (1, 48), None),
    ],
)
def test_parameters(low: int, high: int, block: tuple[int, int], expected: Packing | None) -> None:
    values = torch.full((2, 384), low, dtype=torch.int16)
    values[1, 5] = high
    counts = [size // width for size, width in zip(values.shape, block, strict=True)]
    node = torch.fx.Graph().placeholder("weight")
    matrix = QuantizedConstant(node, node, values, block, torch.ones(counts), None)
    assert packing_of(matrix) == expected
