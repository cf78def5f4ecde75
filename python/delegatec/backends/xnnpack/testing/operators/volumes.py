# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pools in three dimensions."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as f

from delegatec.backends.common.testing import Function, floats
from delegatec.backends.xnnpack.testing.operators.case import Case

_X: Final = floats(2, 8, 5, 7, 6)
_EDGES: Final = _X.clone()
_EDGES[0, :, 2, 3, 3], _EDGES[1, :, 1, 1, 1] = torch.inf, -torch.inf
_BATCH: Final = ({0: torch.export.Dim("batch", min=1, max=4)},)


def _layer(*args: Any, x: Tensor = _X, **options: Any) -> Case:
    """Returns a case of a convolution, for each batch from 1 to 4."""
    torch.manual_seed(0)
    more = tuple((floats(batch, *x.shape[1:], seed=batch),) for batch in (1, 4))
    return Case(nn.Conv3d(*args, **options).eval(), (x,), "", _BATCH, more, rtol=1e-4, half=1e-2)


def _pool(function: Function, *args: Any, **options: Any) -> Case:
    return Case(lambda x: function(x, *args, **options), (_X,), "", (), ((_EDGES,),))


def _network() -> nn.Module:
    torch.manual_seed(0)
    layers = (
        *(nn.Conv3d(8, 12, 3, (1, 2, 2), 1), nn.BatchNorm3d(12), nn.ReLU(), nn.MaxPool3d((1, 2, 2))),
        *(nn.Conv3d(12, 12, (3, 1, 1), padding=(1, 0, 0)), nn.Hardswish(), nn.Conv3d(12, 4, (1, 2, 1))),
        *(nn.AvgPool3d((5, 1, 1)), nn.Flatten(), nn.Linear(4, 3)),
    )
    return nn.Sequential(*layers).eval()


_CASES: Final = {
    "convolution": _layer(8, 6, 3),
    "padding": _layer(8, 6, 3, padding=1),
    "padding, stride, dilation": _layer(8, 6, (2, 3, 2), (2, 1, 2), (1, 2, 0), (2, 1, 3)),
    "no bias": _layer(8, 6, (2, 1, 3), bias=False),
    "pixels": _layer(8, 6, 1),
    "pixels, stride": _layer(8, 6, 1, 2),
    "planes": _layer(8, 6, (1, 3, 3), padding=(0, 1, 1)),
    "planes, padded": _layer(8, 6, (1, 3, 3), (2, 1, 1), (1, 0, 0)),
    "depth": _layer(8, 6, (3, 1, 1), padding=(1, 0, 0)),
    "depth, stride, dilation, groups": _layer(8, 6, (2, 1, 1), (2, 1, 1), (1, 0, 0), (3, 1, 1), groups=2),
    "groups": _layer(8, 12, 3, padding=1, groups=2),
    "each channel": _layer(8, 8, 3, 1, 1, groups=8),
    "one channel": _layer(1, 4, 3, x=_X[:, :1]),
    "network": Case(_network(), (_X,), "", (), (), rtol=1e-4, half=1e-2),
    "maxima": _pool(f.max_pool3d, 2),
    "maxima, padding": _pool(f.max_pool3d, 3, 2, 1),
    "maxima, ceil": _pool(f.max_pool3d, (1, 2, 3), ceil_mode=True),
    "averages": _pool(f.avg_pool3d, 2),
    "averages, padding": _pool(f.avg_pool3d, 3, 2, 1),
    "averages, padding does not count": _pool(f.avg_pool3d, 3, 2, 1, count_include_pad=False),
    "averages, divisor": _pool(f.avg_pool3d, (2, 3, 2), divisor_override=5),
    "adaptive averages": _pool(f.adaptive_avg_pool3d, (2, 3, 1)),
    "means": _pool(f.adaptive_avg_pool3d, 1),
}
CASES: Final[dict[str, Case]] = {
    f"volume-{name}".replace(", ", "-").replace(" ", "-"): case for name, case in _CASES.items()
}
