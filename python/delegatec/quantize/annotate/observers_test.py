# SPDX-License-Identifier: Apache-2.0
"""The range of a histogram is the one that torchao finds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torchao.quantization.pt2e import HistogramObserver

from delegatec.quantize.annotate.observers import MaskedHistogramObserver

_VALUES: dict[str, Callable[[Tensor], Tensor]] = {
    "normal": lambda x: x,
    "positive": torch.relu,
    "probabilities": lambda x: torch.softmax(x, 0),
    "long tails": lambda x: x**5,
    "few values": torch.round,
    "small": lambda x: x * 1e-6,
    "zeros": torch.zeros_like,
}


@pytest.mark.parametrize("count", [1, 5, 256, 30000])
@pytest.mark.parametrize("values", _VALUES)
def test_the_search_is_that_of_torchao(values: str, count: int) -> None:
    observer = MaskedHistogramObserver(dtype=torch.int8, qscheme=torch.per_tensor_affine, eps=2**-12)
    noise = torch.Generator().manual_seed(count)
    for _ in range(2):
        observer(_VALUES[values](torch.randn(count, generator=noise)))
    found = torch.stack(observer._non_linear_param_search())
    assert torch.equal(found, torch.stack(HistogramObserver._non_linear_param_search(observer)))
    if values == "long tails" and count == 30000:
        assert found[1] < observer.max_val
