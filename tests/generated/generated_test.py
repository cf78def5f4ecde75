# SPDX-License-Identifier: Apache-2.0
"""A sample of generated programs: none is wrong, none hangs or crashes, and each rejection has a reason."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Final

import pytest
from sampled_cases import part_of

from tests.generated.generate import generate
from tests.generated.outcomes import FAULTS, GENERATOR, NO_EXPORT, REFUSED, RIGHT
from tests.generated.processes import results
from tests.generated.profiles import PROFILES
from tests.generated.quantizing import INT8, PEER_INT8, WEIGHTS_INT4
from tests.generated.targets import (
    MLX,
    MLX_FLOAT16,
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

# Profile, first seed, number of programs, targets. Programs of a sample share a process, which fills torch's
# caches. Fewer quantized programs, which take the most CPU time; a campaign runs more.
_SAMPLES: Final = (
    ("any", 1_000_200, 20, (PORTABLE, MPS, MPS_FLOAT16)),
    ("any", 1_000_300, 20, (PORTABLE, MPS, MPS_FLOAT16)),
    ("any", 1_500_000, 12, (MLX, MLX_FLOAT16)),
    ("any", 2_000_000, 20, (VULKAN, VULKAN_BUFFER, VULKAN_FLOAT16)),
    ("any", 3_000_000, 20, (TOSA, TOSA_FLOATING)),
    ("any", 4_000_000, 20, (XNNPACK, XNNPACK_FLOAT16)),
    ("layers", 5_000_000, 5, (f"{XNNPACK} {INT8}", f"{XNNPACK} {PEER_INT8}", f"{VULKAN} {WEIGHTS_INT4}")),
)


@pytest.mark.parametrize(("profile", "first", "count", "targets"), _SAMPLES)
def test_programs_agree_with_eager_mode(
    profile: str, first: int, count: int, targets: tuple[str, ...]
) -> None:
    """Every third seed; `python -m tests.generated.campaign --seed=SEED --count=1` minimizes one."""
    kinds: Counter[str] = Counter()
    faults = []
    drawn = partial(generate, profile=PROFILES[profile])
    seeds = part_of(range(first, first + count), 3, f"{profile} {first}")
    for seed, found in results(seeds, drawn, targets):
        for outcome in found:
            kinds[outcome.kind] += 1
            if outcome.kind in FAULTS:
                faults.append(f"seed {seed}: {outcome.target}: {outcome.kind}: {outcome.text}")
            if outcome.kind in (REFUSED, NO_EXPORT):
                assert outcome.text.startswith("DC"), f"seed {seed}: {outcome.text}"
    print(f"seeds {seeds}: {dict(kinds)}")
    assert not faults, "\n".join(faults)
    assert kinds[RIGHT] > sum(kinds.values()) / 2
    assert kinds[GENERATOR] <= count // 20
