# SPDX-License-Identifier: Apache-2.0
"""Positions of extrema."""

from __future__ import annotations

from typing import Final

import torch
from torch.nn import functional as f

from delegatec.backends.common.testing import floats
from delegatec.backends.xnnpack.operators.cases.case import Case

_X: Final = floats(2, 6, 8, 9)
_EQUAL: Final = (floats(2, 6, 8, 9) * 2).round()
"""Few different numbers, so that the largest one is often there more than once."""
_ROWS: Final = floats(5, 300)


class _Classes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the channel of the largest number at each pixel."""
        return x.argmax(1)


_CASES: Final = {
    "rows": Case(
        lambda x: x.argmax(-1),
        (_ROWS,),
        "Transpose Reshape ArgMaxPooling Convert Concatenate2 Slice Reshape Convert",
    ),
    "least of rows": Case(lambda x: x.argmin(1, keepdim=True), (_ROWS,)),
    "channels": Case(torch.nn.Sequential(torch.nn.Conv2d(6, 4, 3), _Classes()), (_X,)),
    "first of equal elements": Case(lambda x: (x.argmax(2), x.argmin(1)), (_EQUAL,)),
    "all elements": Case(lambda x: x.exp().argmax(), (_X,)),
    "maximum": Case(lambda x: x.max(1), (_EQUAL,)),
    "minimum": Case(lambda x: x.min(-1, keepdim=True), (_X,)),
    "position alone": Case(lambda x: x.max(2)[1], (_X,)),
    "pool": Case(lambda x: f.max_pool2d(x, 2, return_indices=True), (_EQUAL,)),
    "pool of several columns": Case(lambda x: f.max_pool2d(x, (2, 3), return_indices=True), (_EQUAL,)),
    "pool, positions alone": Case(lambda x: f.max_pool2d(x, (3, 1), return_indices=True)[1], (_X,)),
}
CASES: Final[dict[str, Case]] = {
    f"position-{name}".replace(", ", "-").replace(" ", "-"): case for name, case in _CASES.items()
}
