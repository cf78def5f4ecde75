# SPDX-License-Identifier: Apache-2.0
"""Rewritten calls, in the reference executor, compared with eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from delegatec.backends.vulkan.testing import run_case
from delegatec.backends.vulkan.testing.grid import (
    IMAGE,
    INTEGERS,
    Case,
    X,
    floats,
    over_settings,
)

MANY = (X + 0.1).reshape(2, 1, 3, 2, 2)
MATRIX = floats(3, 4)
POSITIONS = torch.tensor([[1, 0], [2, -1]])
Calls = dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]]
"""Functions of tensors, and example inputs."""

RANKS: Calls = {
    "integers of rank 5": (lambda x: (x * 3).to(torch.int32) + 1, (MANY,)),
    "cat of rank 5": (lambda x: torch.cat([x, x * 2, x], 2), (MANY,)),
    "cat of rank 6": (lambda x: torch.cat([x, x * 2], -1), (MANY[None],)),
    "stack of rank 5": (lambda x: torch.stack([x, x * 2], 2), (IMAGE,)),
    "rotated pairs": (
        lambda x: torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2) * x,
        (floats(1, 2, 5, 8),),
    ),
    "split of rank 5": (lambda x: [each * 2 for each in x.split([1, 2], 2)], (MANY,)),
    "roll of rank 5": (lambda x: (x * 2).roll(1, 2), (MANY,)),
    "softmax of rank 5": (lambda x: (x.softmax(2), x.log_softmax(2)), (MANY,)),
    "rank 0": (lambda x: (x.mean() + x.sum(0), (x * 3).minimum(x - 1), x**-2), (torch.tensor(1.5),)),
}
GATHERS: Calls = {
    "rows": (lambda x, i: x[i] * 2, (floats(5, 7), POSITIONS)),
    "one row": (lambda x, i: x[i] * 2, (X, torch.tensor(-1))),
    "rows of integers": (lambda x, i: x[i] + 2, (INTEGERS, torch.tensor([1, 0, -1]))),
    "several indices": (lambda x, i, j: x[:, i, j] * 2, (IMAGE, POSITIONS, POSITIONS + 1)),
    "windows": (lambda x: functional.unfold(x * 2, 3), (IMAGE,)),
    "sorted": (lambda x: x.sort(), (torch.tensor([[2**31 - 1, -5, 2**24], [7, 2**30, -(2**31)]]).int(),)),
}
SELECTIONS: Calls = {
    "integers": (lambda x: torch.where(x > 3, x * 2, x - 1), (INTEGERS,)),
    "large integers": (lambda x: torch.where(x > 2**31 - 14, x, 1 - x), (INTEGERS + 2**31 - 20,)),
    "masked integers": (lambda x, y: x.masked_fill(y > 2, -7) + 1, (INTEGERS, INTEGERS)),
    "bools of floats": (lambda x: (x * 2).bool(), (X.round(),)),
    "bools of integers": (lambda x: (x - 3).bool(), (INTEGERS,)),
    "any": (lambda x: ((x > 0).any(), (x > 0).all(-1)), (X,)),
}
ARITHMETIC: Calls = {
    "addmm without bias": (
        lambda b, x, y: torch.addmm(b, x, y, beta=0),
        (floats(5) * torch.nan, MATRIX, floats(4, 5)),
    ),
    "floor division": (lambda x: (x * 3) // 2, (X.round(),)),
    "shifts": (lambda x: (x + 1) << 2, (INTEGERS,)),
    "product of a vector": (lambda x, y: (x @ y, y @ y), (MATRIX, floats(4))),
    "transposed, dilated": (nn.ConvTranspose2d(8, 4, 3, dilation=2), (IMAGE,)),
    "pools of sequences": (
        lambda x: functional.max_pool1d(x, 2) + functional.avg_pool1d(x, 2),
        (floats(2, 3, 8),),
    ),
}


CALLS: Calls = RANKS | GATHERS | SELECTIONS | ARITHMETIC


@over_settings({name: (*call, "") for name, call in CALLS.items()})
def test_rewritten_calls(case: Case, options: dict[str, str]) -> None:
    function, args, _ = case
    run_case(function, args, "", **options)


@pytest.mark.parametrize("value", [-1, 2**24 + 1])
def test_selected_integers_are_exact(value: int) -> None:
    run_case(lambda x: torch.where(x > 2**27, x, value), (INTEGERS * 2**26,))


@pytest.mark.parametrize("storage", ["texture", "buffer"])
def test_reductions_of_float16_overflow_to_infinity(storage: str) -> None:
    """The runtime's shader for buffers would clamp them to 65504."""
    x = torch.tensor([[60000.0, 60000.0, -1.0], [torch.inf, 0.5, 0.25], [-torch.inf, 3.0, 2.0]])
    run_case(lambda x: (x.sum(-1), x.amax(-1), x.amin(-1)), (x.half(),), storage=storage)


@pytest.mark.parametrize("storage", ["texture", "buffer"])
def test_sums_of_float16_keep_their_digits(storage: str) -> None:
    run_case(lambda x: (x.sum(-1), x.mean(-1)), (floats(3, 250).abs().half(),), storage=storage)
