# SPDX-License-Identifier: Apache-2.0
"""Attention, in the reference executor, compared with eager mode."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from delegatec.backends.vulkan.testing import calls, run_case
from delegatec.backends.vulkan.testing.grid import Case, floats, over_settings

attend: Any = functional.scaled_dot_product_attention

SIZES = ((8, 8, 8), (5, 7, 8), (5, 8, 6), (1, 8, 8))
MASKS = ((5, 8), (1, 8), (5, 1), (1, 1), (2, 5, 8), (3, 1, 1, 8), (3, 2, 5, 8))
GROUPED_MASKS = ((5, 8), (1, 8), (6, 5, 8), (3, 6, 1, 8), (3, 1, 5, 8))
DEAD = torch.eye(5, 8, dtype=torch.bool)
DEAD[2] = False


def operands(rows: int, columns: int, depth: int, heads: int = 2) -> tuple[torch.Tensor, ...]:
    """Returns queries, keys and values."""
    kv = (floats(3, 2, columns, depth, seed=seed) for seed in (1, 2))
    return floats(3, heads, rows, depth), *kv


QKV = operands(5, 8, 8)
GROUPED = operands(5, 8, 8, heads=6)
FLOATS = floats(5, 8)
ALIVE = torch.ones(5, 8, dtype=torch.bool).tril(1)

FUSED: dict[str, Case] = {
    **{f"{sizes}": (attend, operands(*sizes), "sdpa") for sizes in SIZES},
    "scale": (lambda *x: attend(*x, scale=0.3), QKV, "sdpa"),
    "causal": (lambda *x: attend(*x, is_causal=True), QKV, "sdpa"),
    "causal, large": (
        lambda *x: attend(*x, is_causal=True),
        operands(130, 136, 8),
        "view_copy ge.Tensor full full where.self sdpa",
    ),
    "constant mask": (lambda *x: attend(*x, FLOATS), QKV, "sdpa"),
    "constant mask of bools": (lambda *x: attend(*x, ALIVE), QKV, "sdpa"),
    "fully masked row": (lambda *x: attend(*x, DEAD), QKV, "sdpa mul.Tensor"),
    "groups": (lambda *x: attend(*x, enable_gqa=True), GROUPED, "view_copy sdpa view_copy"),
    "repeated heads": (
        lambda q, k, v: attend(q, k.repeat_interleave(3, 1), v.repeat_interleave(3, 1)),
        GROUPED,
        "view_copy sdpa view_copy",
    ),
    "causal groups": (
        lambda *x: attend(*x, enable_gqa=True, is_causal=True),
        GROUPED,
        "view_copy cat sdpa view_copy",
    ),
    "rank 2": (attend, tuple(x[0, 0] for x in QKV), ""),
    "rank 3": (attend, (*(x[0] for x in QKV), floats(2, 5, 8)), ""),
    "rank 5": (attend, (*(x[None] for x in QKV), floats(1, 3, 1, 5, 8)), ""),
    **{f"mask of {shape}": (attend, (*QKV, floats(*shape)), "") for shape in MASKS},
    **{f"bools of {shape}": (attend, (*QKV, floats(*shape) > 0.2), "") for shape in MASKS},
    "infinite mask": (attend, (*QKV, torch.zeros(5, 8).masked_fill(~DEAD, -torch.inf)), ""),
    **{
        f"groups with a mask of {shape}": (
            lambda *x: attend(*x, enable_gqa=True),
            (*GROUPED, floats(*shape) > -1),
            "",
        )
        for shape in GROUPED_MASKS
    },
}
OTHERS: dict[str, Case] = {
    "narrow values": (attend, (*QKV[:2], floats(3, 2, 8, 6)), ""),
    "broadcast keys": (attend, (QKV[0], *(x[:1] for x in QKV[1:])), ""),
    "broadcast heads": (attend, (QKV[0], *(x[:, :1] for x in QKV[1:])), ""),
    "mask of some dimensions": (attend, (*(torch.stack([x, x]) for x in QKV), floats(1, 3, 1, 5, 8)), ""),
}


@over_settings(FUSED)
def test_fused(case: Case, options: dict[str, str]) -> None:
    function, args, expected = case
    found = calls(run_case(function, args, "", **options))
    found = [each for each in found if each not in ("prepack", "clone")]
    if expected and "precision" not in options:
        assert found == expected.split()
    assert found.count("sdpa") == 1


@over_settings(OTHERS)
def test_decomposed(case: Case, options: dict[str, str]) -> None:
    function, args, _ = case
    found = calls(run_case(function, args, "", **options))
    assert found.count("bmm") == 2 and "sdpa" not in found
