# SPDX-License-Identifier: Apache-2.0
"""Embeddings with max_norm are scaled at build time."""

from __future__ import annotations

import copy

import pytest
import torch

from delegatec.edge import to_edge
from delegatec.edge.testing import assert_computes, called

aten = torch.ops.aten
INDICES = torch.tensor([0, 2, 2])


class Net(torch.nn.Module):
    def __init__(self, norm: float = 2.0, is_read: bool = False, is_written: bool = False) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(5, 4, max_norm=1.0, norm_type=norm)
        self.is_read, self.is_written = is_read, is_written

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows: torch.Tensor = self.table(x)
        if self.is_written:  # a view sees it: torch retraces the program
            rows[0].add_(1)
        return rows + self.table.weight.sum() if self.is_read else rows


def exported(module: torch.nn.Module) -> torch.export.ExportedProgram:
    return torch.export.export(copy.deepcopy(module), (INDICES,))


@pytest.mark.parametrize("norm", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("is_written", [False, True])
def test_rows_are_scaled_at_build_time(norm: float, is_written: bool) -> None:
    module = Net(norm, is_written=is_written)
    program = to_edge(exported(module))
    assert aten.embedding.default in called(program)
    weight = next(value for value in program.constants.values() if value.shape == (5, 4))
    assert bool((weight.norm(norm, dim=1) <= 1.0001).all())
    assert_computes(program, module(INDICES), INDICES)


def test_rows_that_others_read_are_not() -> None:
    assert aten.embedding_renorm.default in called(to_edge(exported(Net(is_read=True))))


def test_weights_that_are_kept_are_not() -> None:
    assert aten.embedding_renorm.default in called(to_edge(exported(Net()), kept={"table.weight"}))
