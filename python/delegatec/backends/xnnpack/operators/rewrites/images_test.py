# SPDX-License-Identifier: Apache-2.0
"""Rewrites of operators on images, compared with eager mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest
import torch
from torch._ops import OpOverload

from delegatec.backends.xnnpack.operators.rewrites import convolutions, norms, pools, resizing, slopes
from delegatec.edge.legalize.rule import rewrites
from delegatec.edge.testing import assert_rewrites

aten = torch.ops.aten
_G: Final = torch.Generator().manual_seed(0)


def _r(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=_G)


_X: Final = _r(2, 4, 7, 9)
_CONVOLUTIONS: Final = [
    (_X, _r(6, 4, 3, 2), _r(6), [2, 1], [1, 0], [1, 2], False, [0, 0], 1),
    (_X, _r(6, 2, 3, 3), None, [1, 1], [2, 1], [2, 1], False, [0, 0], 2),
    (_X, _r(8, 1, 3, 3), _r(8), [1, 2], [1, 1], [1, 1], False, [0, 0], 4),
    (_r(2, 4, 9), _r(6, 2, 3), _r(6), [2], [1], [1], False, [0], 2),
    (_X, _r(4, 6, 3, 2), _r(6), [2, 1], [1, 0], [1, 2], True, [1, 0], 1),
    (_X, _r(4, 3, 3, 3), None, [3, 2], [0, 2], [2, 1], True, [2, 1], 2),
    (_r(2, 4, 9), _r(4, 1, 3), _r(4), [2], [1], [1], True, [1], 4),
]
_CALLS: Final[dict[OpOverload, Sequence[Sequence[Any]]]] = {
    aten.convolution.default: _CONVOLUTIONS,
    aten.max_pool2d_with_indices.default: [
        (_X, [3, 2], [2, 1], [1, 1]),
        (_X, [3, 3], [2, 2], [1, 0], [1, 1], True),
        (_X, [2, 2], [3, 1], [1, 0], [2, 3], True),
        (_r(4, 6, 6), [1, 1], [2, 3]),
    ],
    aten.avg_pool2d.default: [
        (_X, [3, 2], [2, 1], [1, 1]),
        (_X, [3, 2], [2, 3], [1, 1], True, True),
        (_X, [3, 2], [2, 3], [1, 1], True, False),
        (_X, [3, 3], [2, 2], [1, 1], True, True, 5),
        (_X, [3, 3], [2, 2], [0, 1], False, False, 9),
        (_X, [7, 9]),
        (_r(4, 6, 6), [1, 1], [2, 2]),
    ],
    aten._adaptive_avg_pool2d.default: [(_X, [1, 1]), (_X, [3, 4]), (_r(4, 6, 6), [3, 2])],
    aten.adaptive_max_pool2d.default: [(_X, [1, 1]), (_X, [3, 4]), (_r(4, 6, 6), [3, 2])],
    aten.upsample_bilinear2d.vec: [
        *((_X, sizes, corners, None) for sizes in ([14, 13], [3, 9]) for corners in (False, True)),
        (_X, None, False, [2.0, 3.0]),
        (_X, None, True, [2.0, 3.0]),
    ],
    aten.upsample_bilinear2d.default: [
        (_X, [14, 13], True),
        (_X, [1, 9], True),
        (_X, [14, 18], False, 2.0, 2.0),
    ],
    aten.upsample_linear1d.vec: [(_r(2, 4, 9), [5], False, None), (_r(2, 4, 9), None, True, [2.0])],
    aten.upsample_linear1d.default: [(_r(2, 4, 9), [5], False)],
    **{
        packet.vec: [(_r(2, 3, 6, 8), None, [2.0, 3.0]), (_r(2, 3, 6, 8), [3, 16], None), (_X, [7, 9], None)]
        for packet in (aten.upsample_nearest2d, aten._upsample_nearest_exact2d)
    },
    **{
        packet.default: [(_r(2, 3, 6, 8), [12, 4]), (_r(2, 3, 6, 8), [2, 2])]
        for packet in (aten.upsample_nearest2d, aten._upsample_nearest_exact2d)
    },
    **{
        packet.vec: [(_r(2, 3, 6), None, [5.0]), (_r(2, 3, 6), [2], None)]
        for packet in (aten.upsample_nearest1d, aten._upsample_nearest_exact1d)
    },
    **{
        packet.default: [(_r(2, 3, 6), [12])]
        for packet in (aten.upsample_nearest1d, aten._upsample_nearest_exact1d)
    },
    aten.native_group_norm.default: [
        (_X, _r(4), _r(4), 2, 4, 63, 2, 1e-5),
        (_X, None, None, 2, 4, 63, 4, 1e-3),
        (_X + 3, _r(4), None, 2, 4, 63, 1, 1e-5),
        (_r(2, 4, 6), _r(4), _r(4), 2, 4, 6, 2, 1e-5),
    ],
}
_RULES: Final = rewrites(
    convolutions.REWRITES, pools.REWRITES, resizing.REWRITES, norms.REWRITES, slopes.REWRITES
)


@pytest.mark.parametrize("operator", _CALLS, ids=str)
def test_rewrites(operator: OpOverload) -> None:
    keep = [0] if len(operator._schema.returns) > 1 else None
    assert_rewrites(_RULES[operator], _CALLS[operator], torch.float64, 1e-9, keep)
