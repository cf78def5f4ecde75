# SPDX-License-Identifier: Apache-2.0
"""Tables whose rows are gathered take as many bytes as they need, and rows are the same."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from delegatec.edge import to_edge
from delegatec.edge.testing import assert_computes
from delegatec.program.kernels.check import check_kernels
from delegatec.program.kernels.narrow_tables import narrow_tables


class _Table(nn.Module):
    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = nn.Parameter(table, requires_grad=False)


class Embeds(_Table):
    """Gathers rows of any shape."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.embedding(x, self.table) * 3


class Selects(_Table):
    """Gathers rows."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.index_select(self.table, 0, x.view(-1))


class Adds(_Table):
    """Gathers rows, and reads all."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.embedding(x, self.table)[:, :1] + self.table


class Tied(Adds):
    """Reads all under another name."""

    def __init__(self, table: Tensor) -> None:
        super().__init__(table)
        self.tied = nn.Parameter(self.table.data, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.embedding(x, self.table)[:, :1] + self.tied


class Columns(_Table):
    """Gathers columns."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.index_select(self.table, 1, x.view(-1))


def _size(module: nn.Module) -> int:
    """Returns the bytes of the constants."""
    x = torch.tensor([[3, 126, 0, 7, 7]])
    program = to_edge(torch.export.export(module, (x,)))
    narrow_tables(program)
    assert check_kernels(program) == []
    assert_computes(program, module(x), x, rtol=0, atol=0)
    return sum({each.data_ptr(): each.nbytes for each in program.constants.values()}.values())


def _bfloat16(*shape: int) -> Tensor:
    table = torch.randn(shape, dtype=torch.bfloat16).float()
    table[0, :3] = torch.tensor([torch.inf, -0.0, 1e-40])
    table[0, 2] = table[0, 2].to(torch.bfloat16)
    return table


@pytest.mark.parametrize("kind", [Embeds, Selects])
def test_values_of_bfloat16_are_stored_as_such(kind: type[_Table]) -> None:
    assert _size(kind(_bfloat16(128, 64))) == 128 * 64 * 2


@pytest.mark.parametrize("kind", [Adds, Tied, Columns])
def test_other_readers_keep_float32(kind: type[_Table]) -> None:
    assert _size(kind(_bfloat16(128, 128))) == 128 * 128 * 4


def test_other_values_stay() -> None:
    table = _bfloat16(128, 64)
    table[-1, -1] = 1.001
    assert _size(Embeds(table)) == 128 * 64 * 4
    table[-1, -1] = torch.nan
    assert _size(Embeds(table)) == 128 * 64 * 4
    assert _size(Embeds(_bfloat16(128, 4))) == 128 * 4 * 4
