# SPDX-License-Identifier: Apache-2.0
"""Constants of one element and of a higher rank than the value, in the stock runtime.

Its tables of functions of 8-bit values have the shape of their operand: the runtime failed, or hung.
"""

from __future__ import annotations

import io

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from delegatec import Model
from delegatec.frontend.export import export
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.quantize.flow import quantize_model
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import signal_to_noise
from tests.oracle.oracle import OracleProgram


class Ranks(nn.Module):
    """Sums, differences, products and quotients of a value and of constants."""

    def __init__(self) -> None:
        super().__init__()
        self.zero, self.one = nn.Buffer(torch.zeros(1, 1, 1, 1)), nn.Buffer(torch.ones(1, 1, 1, 1, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        value = x.sigmoid() + 0.25
        return (
            self.zero - value,
            (self.one - value).tanh() - value,
            self.one / value,
            value * self.one * 0.7,
            torch.maximum(self.zero + 0.4, value),
            value.unsqueeze(0).tanh() * 2,
            value + (self.zero - x),
        )


@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("is_quantized", [False, True])
def test_results_have_the_rank_of_the_constant(is_dynamic: bool, is_quantized: bool) -> None:
    module, x = Ranks(), torch.randn(6, 7, 4, generator=torch.Generator().manual_seed(0)).clamp(-2, 2)
    sizes = ({0: Dim("rows", min=1, max=6), 1: Dim("columns", min=1, max=7)},) if is_dynamic else None
    methods = export(Model(module, (x,), dynamic_shapes=sizes))
    if is_quantized:
        methods = quantize_model(methods, {"forward": [((x,), {})]}, Settings()).methods
    file = io.BytesIO()
    write_program(lower(methods, "xnnpack", {}).emitted, file)
    program = OracleProgram(file.getvalue())
    for rows, columns in ((6, 7), (1, 7), (1, 1), (3, 2)) if is_dynamic else ((6, 7),):
        given = x[:rows, :columns].contiguous()
        for exact, found in zip(module(given), program.run((given,)), strict=True):
            assert exact.shape == found.shape
            assert signal_to_noise(exact, found) > (25 if is_quantized else 100)
