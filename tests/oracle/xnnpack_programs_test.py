# SPDX-License-Identifier: Apache-2.0
"""Programs of the XNNPACK backend in the stock runtime: one delegate each, with the results of eager mode."""

from __future__ import annotations

from typing import Any

import torch

from delegatec.delegation import DelegationReport
from tests.oracle.xnnpack import run_in_runtime


def one_delegate(report: DelegationReport) -> None:
    assert (len(report.delegates), report.rejections) == (1, [])


def perceptron() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4), torch.nn.Sigmoid()
    return torch.nn.Sequential(*layers)


def test_a_perceptron() -> None:
    x = torch.randn(3, 8)
    one_delegate(run_in_runtime(perceptron(), [(x,)]))
    one_delegate(run_in_runtime(perceptron(), [(x,)], None, {"precision": "fp16"}, rtol=4e-3, atol=1e-3))


def test_the_batch_may_vary() -> None:
    batch = torch.export.Dim("batch", min=2, max=64)
    calls = [(torch.randn(rows, 8),) for rows in (5, 2, 64, 3)]
    one_delegate(run_in_runtime(perceptron(), calls, ({0: batch},)))


class Outputs(torch.nn.Module):
    """Returns a result twice, and reads it further."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        total = x + y
        return total, total * 2.0, total, (total - y).relu()


def test_outputs_that_are_read_or_returned_twice() -> None:
    one_delegate(run_in_runtime(Outputs(), [(torch.randn(2, 3), torch.randn(2, 3))]))


class Constants(torch.nn.Module):
    """Adds, multiplies and compares with constants, which the runtime reads at each run."""

    weight: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randn(3, 50))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.maximum(x * self.weight + 1.5, self.weight)


def test_constants_that_are_not_packed() -> None:
    one_delegate(run_in_runtime(Constants(), [(torch.randn(3, 50),) for _ in range(3)]))
