# SPDX-License-Identifier: Apache-2.0
"""Padding, against eager mode."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.common.testing import floats, ints
from delegatec.backends.mps.operators.grid import PRECISIONS, rejected, run_case

VOLUME = floats(2, 3, 6, 7, 8)
AMOUNTS = [
    (1, 2, 3, 4, 5, 6, 1, 1),
    (0, 0, 0, 0, 0, 0, 1, 2),
    (-1, 2, 3, -1),
    (-2, -3),
    (1, 0, 0, 0, 0, 0, 0, 0, 2, -1),
    (0, -1, 0, 0, 0, 0, -1, 0),
]


@pytest.mark.parametrize("amounts", AMOUNTS, ids=str)
def test_constant(amounts: tuple[int, ...]) -> None:
    for precision in PRECISIONS:
        run_case(lambda x: F.pad(x, amounts, value=1.5) * 2, (VOLUME,), precision=precision)
    run_case(lambda x: F.pad(x > 0, amounts, value=True).float() * 2, (VOLUME,))
    run_case(lambda x: F.pad(x, amounts, value=-3) * 2, (ints(2, 3, 6, 7, 8),))


@pytest.mark.parametrize("amounts", [(1, 2, 3, 2, 1, 0), (-1, 2, 0, -2, 1, 1), (0, -1, 0, 0, 0, -1)], ids=str)
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_elements(mode: str, rank: int, amounts: tuple[int, ...]) -> None:
    x = floats(2, 3, *(6, 7, 8)[3 - rank :])
    run_case(lambda x: F.pad(x, amounts[: 2 * rank], mode=mode) * 2, (x,))


def test_operations() -> None:
    run_case(lambda x: F.pad(x, (1, 0, 2, 3)) * 2, (VOLUME,), "ConstantPadND Mul")
    run_case(lambda x: F.pad(x, (1, 0, -2, 3)) * 2, (VOLUME,), "Slice ConstantPadND Mul")
    run_case(
        lambda x: F.pad(x, (1, 1, 2, 2), mode="reflect") * 2, (VOLUME[0],), "IndexSelect IndexSelect Mul"
    )


def test_infinite_padding() -> None:
    run_case(lambda x: F.pad(x, (1, 2), value=float("-inf")) * 2, (VOLUME,), precision="fp16")


def test_large_integers_are_rejected() -> None:
    left = rejected(lambda x: F.pad(x, (1, 2), value=2**24 + 1) + 1, (torch.ones(3, dtype=torch.int64),))
    assert [(operator, rule) for operator, rule, _ in left] == [("aten.constant_pad_nd.default", "argument")]


def test_circular_padding_is_a_concatenation() -> None:
    run_case(lambda x: F.pad(x, (1, 2), mode="circular") * 2, (VOLUME[0, 0],), "Slice Slice Cat Mul")
