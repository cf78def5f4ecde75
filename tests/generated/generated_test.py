# SPDX-License-Identifier: Apache-2.0
"""A sample of generated programs: none is wrong, none hangs or crashes, and each rejection has a reason."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from tests.generated.generate import generate
from tests.generated.outcomes import FAULTS, GENERATOR, NO_EXPORT, REFUSED, RIGHT
from tests.generated.processes import results
from tests.generated.targets import (
    MPS,
    MPS_FLOAT16,
    PORTABLE,
    TOSA,
    TOSA_FLOATING,
    VULKAN,
    VULKAN_BUFFER,
    VULKAN_FLOAT16,
    XNNPACK,
    XNNPACK_FLOAT16,
)

_PROGRAMS: Final = 20
# Fewer programs for Vulkan, TOSA and XNNPACK, as this test takes most of the CPU time; a campaign runs more.
_SAMPLES: Final = [
    *((first, (PORTABLE, MPS, MPS_FLOAT16)) for first in range(1_000_040, 1_000_160, _PROGRAMS)),
    *((first, (VULKAN, VULKAN_BUFFER, VULKAN_FLOAT16)) for first in range(2_000_000, 2_000_060, _PROGRAMS)),
    *((first, (TOSA, TOSA_FLOATING)) for first in range(3_000_000, 3_000_040, _PROGRAMS)),
    *((first, (XNNPACK, XNNPACK_FLOAT16)) for first in range(4_000_000, 4_000_040, _PROGRAMS)),
]


@pytest.mark.parametrize(("first", "targets"), _SAMPLES)
def test_programs_agree_with_eager_mode(first: int, targets: tuple[str, ...]) -> None:
    """Seeds from `first`; `python -m tests.generated.campaign --seed=SEED --count=1` minimizes a failure."""
    kinds: Counter[str] = Counter()
    faults = []
    for seed, found in results(range(first, first + _PROGRAMS), generate, targets):
        for outcome in found:
            kinds[outcome.kind] += 1
            if outcome.kind in FAULTS:
                faults.append(f"seed {seed}: {outcome.target}: {outcome.kind}: {outcome.text}")
            if outcome.kind in (REFUSED, NO_EXPORT):
                assert outcome.text.startswith("DC"), f"seed {seed}: {outcome.text}"
    print(f"seeds {first} to {first + _PROGRAMS - 1}: {dict(kinds)}")
    assert not faults, "\n".join(faults)
    assert kinds[RIGHT] > sum(kinds.values()) / 2
    assert kinds[GENERATOR] <= 1
