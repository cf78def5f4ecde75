# SPDX-License-Identifier: Apache-2.0
"""Every case becomes one delegate, with the operations that it names."""

from __future__ import annotations

import pytest
import torch

from delegatec.backends.common.testing import X
from delegatec.backends.xnnpack.operators.cases.all import ALL
from delegatec.backends.xnnpack.operators.grid import rejected, run_case


@pytest.mark.parametrize("name", ALL)
def test_one_delegate(name: str) -> None:
    run_case(ALL[name])


@pytest.mark.parametrize("name", [name for name, case in ALL.items() if case.half is not None])
def test_one_delegate_in_float16(name: str) -> None:
    run_case(ALL[name], precision="fp16")


def test_reasons() -> None:
    assert "Rank is at most 6" in rejected(lambda x: x + 1.0, (X[None, None, None, None],))[0][2]
    (left,) = rejected(torch.add, (torch.arange(3), torch.arange(3)))
    assert left[1] == "dtype" and "convert to float32" not in left[2]
