# SPDX-License-Identifier: Apache-2.0
"""Programs in bfloat16: weights, casts, and the range of float32."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from delegatec.backends.common.testing import eager, floats
from delegatec.backends.mlx.testing import compile_module
from delegatec.diagnostics import DelegatecError


class Network(nn.Module):
    """A convolution, norms, attention with a mask of the lowest float32, and values beyond float16."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convolution = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.LayerNorm(8)
        self.layer = nn.Linear(8, 8)
        self.register_buffer("mask", torch.full((36, 36), torch.finfo(torch.float32).min).triu(1))

    def forward(self, x: Tensor) -> Tensor:
        rows = self.norm(self.convolution(x).flatten(2).mT * 1e6)
        q, k = self.layer(rows), rows
        weights = (q @ k.mT + self.mask).softmax(-1)
        found: Tensor = (weights @ rows).mean(1) * 3e5
        return found


def test_bfloat16() -> None:
    module, x = Network().eval(), floats(2, 3, 6, 6)
    compiled = compile_module(module, (x,), "bf16")
    assert (len(compiled.delegates), compiled.left) == (1, [])
    (wanted,) = eager(module, (x,))
    (found,) = compiled(x)
    assert found.dtype == torch.float32
    assert (found - wanted).abs().max() < 2e-2 * wanted.abs().max()
    assert not torch.equal(found, wanted)


def test_weights_have_half_the_bytes() -> None:
    sizes = {}
    for precision in ("fp32", "fp16", "bf16"):
        (delegate,) = compile_module(nn.Linear(64, 64), (floats(2, 64),), precision).delegates
        sizes[precision] = sum(len(each.data) for each in delegate.named_data.values())
    assert sizes["fp32"] == 2 * sizes["fp16"] == 2 * sizes["bf16"]


def test_overflow_is_of_float16() -> None:
    with pytest.raises(DelegatecError, match=r"DC423.*has no effect with precision 'bf16'"):
        compile_module(nn.Linear(4, 4), (floats(2, 4),), "bf16", fp16_overflow="saturate")
