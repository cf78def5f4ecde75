# SPDX-License-Identifier: Apache-2.0
"""Models that write to their buffers and to other values, quantized without samples."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.nn import functional as F  # noqa: N812

from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized, signal_to_noise


def _quantized(module: nn.Module, x: Tensor) -> ExportedProgram:
    return quantized(module, (x,), Settings(activation="dynamic_int8")).methods["forward"]


def test_state_stays_in_float() -> None:
    class Steps(nn.Module):
        """A counter, and a matrix that each call replaces."""

        count: Tensor
        matrix: Tensor

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.register_buffer("count", torch.zeros(1))
            self.register_buffer("matrix", torch.randn(8, 8))
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            self.count.add_(1)
            self.matrix.mul_(2)
            result: Tensor = self.layer(x) + F.linear(x, self.matrix) * self.count
            return result

    x = torch.randn(2, 8, generator=torch.Generator().manual_seed(1))
    program = _quantized(Steps(), x)
    assert torch.equal(program.state_dict["count"], torch.zeros(1))
    module, run = Steps(), program.module(check_guards=False)
    with torch.no_grad():
        for _ in range(3):
            assert signal_to_noise(module(x), run(x)) > 35


def test_constants_that_the_model_writes_to_while_it_computes() -> None:
    class Positions(nn.Module):
        """Positions are added in place, to a view of a constant too."""

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.rows, self.layer = nn.Embedding(16, 32), nn.Linear(32, 8)

        def forward(self, tokens: Tensor) -> Tensor:
            positions = torch.zeros(4, dtype=torch.int64)
            positions[1:] += 2
            positions += tokens
            result: Tensor = self.layer(self.rows(positions)) * positions[:, None]
            return result

    module, tokens = Positions(), torch.arange(4)
    program = _quantized(module, tokens)
    run = program.module(check_guards=False)
    with torch.no_grad():
        for shift in (0, 5, 0):
            assert signal_to_noise(module(tokens + shift), run(tokens + shift)) > 30


def test_a_write_to_the_result_of_a_dropout_is_one_to_its_operand() -> None:
    class Written(nn.Module):
        """At inference, a dropout returns its operand."""

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.dropout, self.layer = nn.Dropout(0.5), nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            y = x * 2
            self.dropout(self.dropout(y)).view(-1).mul_(3)
            result: Tensor = self.layer(y)
            return result

    x = torch.randn(2, 8, generator=torch.Generator().manual_seed(1))
    module = Written().eval()
    with torch.no_grad():
        assert signal_to_noise(module(x), _quantized(module, x).module(check_guards=False)(x)) > 35
