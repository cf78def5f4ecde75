# SPDX-License-Identifier: Apache-2.0
"""Indices of extrema."""

from __future__ import annotations

from typing import Final

import torch
from torch.nn import functional as f

from delegatec.backends.common.testing import Function, floats
from delegatec.backends.xnnpack.testing.operators.case import Case

_X: Final = floats(2, 6, 8, 9)
_EQUAL: Final = (floats(2, 6, 8, 9) * 2).round()
"""Few different values, so that the largest one often occurs more than once."""
_ROWS: Final = floats(5, 300)


_LONG: Final = floats(3, 1000)
_LEAST: Final = torch.full((2, 1009), -torch.inf)


def _infinities() -> torch.Tensor:
    """Rows whose largest elements are infinite and occur twice."""
    x = floats(2, 1009)
    x[:, 700], x[:, 650], x[1, 3] = torch.inf, torch.inf, -torch.inf
    return x


def _varied(case_of: Function, dim: int, *sizes: int) -> Case:
    """Returns a case in which one size is dynamic and grows beyond that of the first run."""
    runs = [(floats(*sizes[:dim], size, *sizes[dim:]) * 4).round() for size in (3, 40, 1)]
    first, *more = ((x,) for x in runs)
    return Case(case_of, first, "", ({dim: torch.export.Dim("size", min=1, max=40)},), more)


class _Classes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the channel of the largest value at each pixel."""
        return x.argmax(1)


_CASES: Final = {
    "rows": Case(
        lambda x: x.argmax(-1),
        (_ROWS,),
        "Transpose Reshape ArgMaxPooling Convert Concatenate2 Slice Reshape Convert",
    ),
    "long rows": Case(lambda x: x.argmax(-1), (_LONG,), "", (), (((_LONG * 3).round(),), (_LONG.neg(),))),
    "long rows, a prime length": Case(
        lambda x: (x.argmax(-1), x.argmin(-1)), (floats(2, 1009),), "", (), ((_infinities(),), (_LEAST,))
    ),
    "long rows, maximum": Case(lambda x: (*x.max(1, keepdim=True), *x.min(1)), ((_LONG * 3).round(),)),
    "long, all elements": Case(lambda x: x.argmax(), ((floats(16, 2001) * 9).round(),)),
    "least of rows": Case(lambda x: x.argmin(1, keepdim=True), (_ROWS,)),
    "channels": Case(torch.nn.Sequential(torch.nn.Conv2d(6, 4, 3), _Classes()), (_X,)),
    "first of equal elements": Case(lambda x: (x.argmax(2), x.argmin(1)), (_EQUAL,)),
    "all elements": Case(lambda x: x.exp().argmax(), (_X,)),
    "maximum": Case(lambda x: x.max(1), (_EQUAL,)),
    "minimum": Case(lambda x: x.min(-1, keepdim=True), (_X,)),
    "positions twice": Case(lambda x: (x.argmax(1), *x.max(1)), (_EQUAL,)),
    "position alone": Case(lambda x: x.max(2)[1], (_X,)),
    "rows that vary": _varied(lambda x: (x.argmax(-1), x.argmin(-1, keepdim=True)), 0, 100),
    "long rows that vary": _varied(lambda x: x.max(1), 0, 2100),
    "channels of images that vary": _varied(lambda x: x.max(1), 0, 21, 4, 5),
    "channels of rows that vary": _varied(lambda x: (x.argmax(1), x.argmin(1)), 2, 2, 21, 5),
    "pool": Case(lambda x: f.max_pool2d(x, 2, return_indices=True), (_EQUAL,)),
    "pool of several columns": Case(lambda x: f.max_pool2d(x, (2, 3), return_indices=True), (_EQUAL,)),
    "pool of volumes": Case(lambda x: f.max_pool3d(x.exp(), 2), (floats(2, 4, 6, 8),)),
    "pool, positions alone": Case(lambda x: f.max_pool2d(x, (3, 1), return_indices=True)[1], (_X,)),
}
CASES: Final[dict[str, Case]] = {
    f"position-{name}".replace(", ", "-").replace(" ", "-"): case for name, case in _CASES.items()
}
