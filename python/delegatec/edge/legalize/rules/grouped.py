# SPDX-License-Identifier: Apache-2.0
"""Products of groups of rows, each with another matrix: the experts of a mixture."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from delegatec.edge.legalize.rule import FunctionTable

aten = torch.ops.aten


def grouped_product(rows: Tensor, matrices: Tensor, ends: Tensor) -> Tensor:
    """Multiplies each row by the matrix of its group.

    Args:
        rows: [S, I], group by group.
        matrices: [E, I, O].
        ends: [E], the end of each group; rows after the last one are zero in the result.
    """
    row = torch.arange(rows.shape[0], device=rows.device).unsqueeze(1)
    count = matrices.shape[0]
    if isinstance(rows.shape[0], int) and rows.shape[0] <= count:
        # few rows, as in decoding: only the matrices of their groups are read
        group = (row >= ends).sum(1).clamp(max=count - 1)
        product = torch.bmm(rows.unsqueeze(1), matrices[group]).squeeze(1)
        return torch.where(row < ends[-1], product, 0.0)
    # A matrix for each row would need more memory than all of the matrices; constant ones are delegated.
    result = rows.new_zeros(rows.shape[0], matrices.shape[2])
    for index in reversed(range(count)):
        product = torch.nn.functional.linear(rows, matrices[index].mT)
        result = torch.where(row < ends[index], product, result)
    return result


def _grouped_mm(
    self: Tensor,
    mat2: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Any:
    if bias is not None or mat2.dim() != 3 or (self.dim() == 3) != (offs is None):
        return NotImplemented
    result = torch.bmm(self, mat2) if offs is None else grouped_product(self, mat2, offs)
    return result if out_dtype is None else result.to(out_dtype)


FUNCTIONS: FunctionTable = {aten._grouped_mm.default: _grouped_mm}
