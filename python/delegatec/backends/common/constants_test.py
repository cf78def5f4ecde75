# SPDX-License-Identifier: Apache-2.0
"""Constants that are converted from the program's form."""

from __future__ import annotations

import pytest
import torch

from delegatec.backends.common.constants import (
    FLOAT16_MAX,
    FLOAT32_MAX,
    BFloat16Bytes,
    Int4Bytes,
    to_float16,
)
from delegatec.delegation.protocol.parts import join
from delegatec.edge.scaled import ScaledTensor


def halves(values: torch.Tensor) -> tuple[torch.Tensor, str]:
    """Returns float32 values as stored in float16, and the message on those out of range."""
    data, lost = to_float16(values)
    return torch.frombuffer(bytearray(join([data])), dtype=torch.float16), lost


@pytest.mark.parametrize(
    ("value", "lost"), [(65519.99, False), (-65519.99, False), (65520.0, True), (-65520.0, True)]
)
def test_values_that_round_to_infinity_are_lost(value: float, lost: bool) -> None:
    half, message = halves(torch.tensor([0.5, value]))
    assert bool(message) is lost
    assert lost or abs(half[1].item()) == 65504


def test_float16_of_nothing_and_of_nan() -> None:
    assert len(to_float16(torch.empty(0, 3))[0]) == 0
    half, lost = halves(torch.tensor([float("nan"), 1e5]))
    assert half.isnan().tolist() == [True, False] and lost.startswith("1 value beyond")


def test_float16_keeps_infinities_and_saturates_limits() -> None:
    inf = float("inf")
    half, lost = halves(torch.tensor([1.0, inf, -inf, FLOAT32_MAX, -FLOAT32_MAX]))
    assert not lost
    assert half.tolist() == [1.0, inf, -inf, FLOAT16_MAX, -FLOAT16_MAX]


def test_float16_of_many_values_is_that_of_each() -> None:
    """More values than one iteration converts or checks, and arbitrary ranges of them."""
    values = torch.randn(700_001, generator=torch.Generator().manual_seed(0))
    wanted = values.half().numpy().tobytes()
    data, lost = to_float16(values.view(1, -1))
    assert not lost and join([data]) == wanted
    for start, end in ((0, 1), (1, 2), (3, 3), (3, 8), (4, 7), (1_399_999, 1_400_002)):
        assert bytes(data[start:end]) == wanted[start:end]
    values[[5, 300_000, 600_000]] = torch.tensor([7e4, FLOAT32_MAX, -8e5])
    half, lost = halves(values)
    assert lost == "2 values beyond float16 (+-65504), the largest -800000"
    assert half[300_000].item() == FLOAT16_MAX


def test_bfloat16_of_any_range() -> None:
    values = torch.randn(300_001, generator=torch.Generator().manual_seed(0))
    wanted = values.bfloat16().view(torch.uint8).numpy().tobytes()
    data = BFloat16Bytes(values)
    assert join([data]) == wanted and bytes(data[3:8]) == wanted[3:8]
    special = torch.tensor([float("inf"), float("nan"), FLOAT32_MAX, -FLOAT32_MAX, 1e5])
    found = torch.frombuffer(bytearray(join([BFloat16Bytes(special)])), dtype=torch.bfloat16)
    largest = torch.finfo(torch.bfloat16).max
    assert found[0].isinf() and found[1].isnan() and found[2:4].tolist() == [largest, -largest]
    assert found[4] == special[4].bfloat16()


@pytest.mark.parametrize("scale", [2.0, -3e5])
def test_float16_of_scaled_weights(scale: float) -> None:
    """Their range is that of the products, the second of which are out of float16's range."""
    source, scales = (
        torch.tensor([[0.25, -1.0], [0.5, -0.125]]),
        torch.tensor([scale, 1.0], dtype=torch.float64),
    )
    half, lost = halves(ScaledTensor(source, scales))
    assert lost == ("" if scale == 2 else "2 values beyond float16 (+-65504), the largest 300000")
    assert half[2:].tolist() == [0.5, -0.125] and (lost or half[:2].tolist() == [0.5, -2.0])


def test_any_range_of_int4() -> None:
    weight = torch.randint(-8, 8, (8, 32), generator=torch.Generator().manual_seed(0), dtype=torch.int8)
    pairs = zip(weight.flatten().tolist()[::2], weight.flatten().tolist()[1::2], strict=True)
    wanted = bytes((first & 15) | (second & 15) << 4 for first, second in pairs)
    packed = Int4Bytes(weight)
    assert len(packed) == len(wanted) == 128 and join([packed]) == wanted
    for start, end in ((0, 1), (3, 3), (5, 17), (120, 200)):
        assert bytes(packed[start:end]) == wanted[start:end]
