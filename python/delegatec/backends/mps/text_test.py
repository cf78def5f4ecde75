# SPDX-License-Identifier: Apache-2.0
"""Blobs as text."""

from __future__ import annotations

import pytest
import torch

from delegatec.backends import builtin_backends
from delegatec.backends.mps.backend import MPS
from delegatec.delegation import to_backend
from delegatec.diagnostics import DelegatecError
from delegatec.edge import to_edge


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)
        self.register_buffer("rows", torch.tensor([1, 0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.linear(x).clamp(min=0.0), x.mean(1, keepdim=True)], 1)


def test_every_value_and_operation_has_a_line() -> None:
    exported = torch.export.export(Net().eval(), (torch.zeros(3, 4),), strict=False)
    specs = MPS.compile_specs({})
    lowered = to_backend("MPSBackend", to_edge(exported), specs, registry=builtin_backends())
    text = MPS.describe(memoryview(lowered.blob_bytes()))
    assert text.splitlines() == EXPECTED.splitlines()


def test_another_file_is_refused() -> None:
    with pytest.raises(DelegatecError, match="DC407"):
        MPS.describe(memoryview(b"something else, of more than 24 bytes"))


EXPECTED = """\
an MPSGraph: 4 operations, 7 values, 2 constants in 48 B
  input    %0: float32[3, 4]
  constant %1: float32[4, 2] at 0
  constant %2: float32[2] at 32
  %3: float32[3, 2] = Addmm(%2, %0, %1, beta=1.0, alpha=1.0)
  %4: float32[3, 2] = Clamp(%3, min=0.0, max=inf)
  %5: float32[3, 1] = Mean(%0, numDims=1, dims=[1], keepDims=True)
  %6: float32[3, 3] = Cat([%4, %5], dim=1)
  return %6
"""
