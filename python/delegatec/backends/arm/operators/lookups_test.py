# SPDX-License-Identifier: Apache-2.0
"""Look-ups in the reference executor, against eager mode."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from delegatec.backends.arm.testing import run_case
from delegatec.backends.common.testing import ints


@pytest.mark.parametrize("shape", [(1, 5), (1, 1)])
def test_embedding(shape: tuple[int, ...]) -> None:
    run_case(nn.Embedding(10, 4), (ints(*shape, high=10, dtype=torch.int32),), "GATHER")
