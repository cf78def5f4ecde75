# SPDX-License-Identifier: Apache-2.0
"""Means of wide rows are pooled before they are multiplied."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from delegatec.backends.common.testing import Compiled
from delegatec.backends.xnnpack.backend import XNNPACK
from delegatec.backends.xnnpack.testing import compile_module

_DTYPES = (torch.float32, torch.float16)
_ROWS = Dim("rows", min=1, max=16)


class _Norm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.norm(x).sum(-1, keepdim=True)
        return result


def _pools(compiled: Compiled) -> int:
    (blob,) = compiled.blobs()
    return [node.operation for node in XNNPACK.graph(memoryview(blob)).nodes].count("GlobalAveragePooling")


@pytest.mark.parametrize(
    ("shape", "dynamic", "pools"),
    [
        ((2, 4, 256), None, 3),
        ((1, 2, 1, 2, 2, 320), None, 3),
        ((8, 192), None, 0),  # three pixels gain nothing
        ((8, 384 + 32), None, 0),  # not a multiple of 64
        ((7, 256), None, 0),
        ((8, 256), ({0: _ROWS},), 0),
    ],
)
def test_means_and_sums_of_rows(shape: tuple[int, ...], dynamic: Any, pools: int) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)) + 3
    module = _Norm(shape[-1]).eval()
    nn.init.normal_(module.norm.weight, generator=torch.Generator().manual_seed(1))
    compiled = compile_module(module, (x,), dynamic)
    assert _pools(compiled) == pools
    (result,) = compiled(x)
    torch.testing.assert_close(result, module(x), atol=2e-5, rtol=1e-5)


def test_half_precision_is_not_pooled() -> None:
    class Mean(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mean(-1)

    assert [_pools(compile_module(Mean(), (torch.ones(8, 256, dtype=each),))) for each in _DTYPES] == [1, 0]
