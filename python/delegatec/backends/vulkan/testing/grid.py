# SPDX-License-Identifier: Apache-2.0
"""Cases of the tests of operators: functions, their operands and the runtime's operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
import torch

Case = tuple[Callable[..., Any], tuple[torch.Tensor, ...], str]
"""A function of tensors or a module, example inputs, and the expected operators; unchecked if empty."""

_SETTINGS: Final = {"texture": {}, "buffer": {"storage": "buffer"}, "fp16": {"precision": "fp16"}}


def over_settings(cases: Mapping[str, Case]) -> pytest.MarkDecorator:
    """Parametrizes a test with each case in textures, in buffers, and in float16."""
    return pytest.mark.parametrize(
        ("case", "options"),
        [
            pytest.param(case, options, id=f"{name}-{setting}")
            for name, case in cases.items()
            for setting, options in _SETTINGS.items()
        ],
    )


def floats(*shape: int, seed: int = 0) -> torch.Tensor:
    """Returns normal floats."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


X: Final = floats(2, 3, 4)
Y: Final = floats(2, 3, 4, seed=1)
POSITIVE: Final = X.abs() + 0.1
IMAGE: Final = floats(1, 8, 12, 16, seed=2)
INTEGERS: Final = torch.arange(12).reshape(3, 4)
DIVISORS: Final = torch.tensor([5, 2, 8, 1])
BOOLS: Final = X > 0.2
"""Some true, some false."""
