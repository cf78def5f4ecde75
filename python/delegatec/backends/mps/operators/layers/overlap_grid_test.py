# SPDX-License-Identifier: Apache-2.0
"""Overlapping windows, extracted and added, against eager mode."""

from __future__ import annotations

import random

import pytest
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.common.testing import floats
from delegatec.backends.mps.backend import MPS
from delegatec.backends.mps.blob import read_blob
from delegatec.backends.mps.operators.grid import PRECISIONS, run_case
from delegatec.backends.mps.testing import operations

INTEGERS = MPS.preserved_operators()


@pytest.mark.parametrize("seed", range(16))
def test_windows(seed: int) -> None:
    chance = random.Random(seed)

    def two(low: int, high: int) -> tuple[int, int]:
        return chance.randint(low, high), chance.randint(low, high)

    kernel, dilation, padding, stride = two(1, 4), two(1, 3), two(0, 2), two(1, 4)
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    size = (reach[0] + chance.randint(0, 5), reach[1] + chance.randint(0, 5))
    x = floats(*(2,) * (chance.random() < 0.7), 3, *size)
    windows = F.unfold(x, kernel, dilation, padding, stride)
    precision = PRECISIONS[seed % 2]
    run_case(
        lambda x: F.unfold(x, kernel, dilation, padding, stride) * 2,
        (x,),
        precision=precision,
        preserve=INTEGERS,
    )
    run_case(
        lambda w: F.fold(w, size, kernel, dilation, padding, stride),
        (windows,),
        precision=precision,
        preserve=INTEGERS,
    )


def test_patches_that_do_not_overlap_are_only_moved() -> None:
    windows = floats(1, 32, 64)
    compiled = run_case(lambda w: F.fold(w * 2, (16, 16), 2, stride=2), (windows,), preserve=INTEGERS)
    assert set(operations(compiled.blobs()[0])) == {"Mul", "View", "Permute"}


def test_patches_that_overlap() -> None:
    """One addition per row and column of a window, except the first ones, and no table of indices."""
    windows = floats(1, 8 * 9, 256)
    compiled = run_case(lambda w: F.fold(w, (16, 16), 3, padding=1), (windows,), preserve=INTEGERS)
    assert operations(compiled.blobs()[0]).count("Add") == 4
    assert len(read_blob(memoryview(compiled.blobs()[0])).constants) == 0
