# SPDX-License-Identifier: Apache-2.0
"""Rewrites of attention, norms and indices of extrema, compared with eager mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest
import torch
from torch._ops import OpOverload

from delegatec.backends.xnnpack.operators.rewrites import attention, norms, positions
from delegatec.edge.legalize.rule import rewrites
from delegatec.edge.testing import assert_rewrites

aten = torch.ops.aten
_G: Final = torch.Generator().manual_seed(0)


def _r(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=_G)


_Q, _K, _V = _r(2, 4, 5, 8), _r(2, 4, 6, 8), _r(2, 4, 6, 3)
_KEPT: Final = torch.rand(2, 1, 5, 6, generator=_G) > 0.4
_KEPT[0, 0, 3] = False
_SHIFT: Final = torch.where(_KEPT, _r(2, 1, 5, 6), -torch.inf)
_FEW: Final = (_Q, _K[:, :2], _V[:, :2])
_GROUPED: Final = {"enable_gqa": True}
_EQUAL: Final = (_r(2, 6, 8, 9) * 2).round()
"""Few different values, so that the largest one often occurs more than once."""

_POSITIONS: Final = [
    *((_EQUAL, dim) for dim in (0, 2, -1)),
    *((each, dim, True) for each in (_EQUAL, (_r(3, 1009) * 9).round()) for dim in (1, -1)),
]
_CALLS: Final[dict[OpOverload, Sequence[Sequence[Any]]]] = {
    aten.scaled_dot_product_attention.default: [
        (_Q, _K, _V),
        (_Q[0], _K[0], _V[0], None, 0.0, False, {"scale": 0.3}),
        (_Q[0, 0], _K[0, 0], _V[0, 0], _KEPT[0, 0]),
        (_Q, _K, _V, None, 0.0, True),
        (_Q, _K, _V, _KEPT),
        (_Q, _K, _V, _SHIFT),
        *((*_FEW, mask, 0.0, False, _GROUPED) for mask in (None, _KEPT, _SHIFT, _SHIFT.expand(2, 4, 5, 6))),
        (*_FEW, None, 0.0, True, _GROUPED),
    ],
    aten.native_layer_norm.default: [
        (_EQUAL, [9], _r(9), _r(9), 1e-5),
        (_EQUAL + 3, [8, 9], None, _r(8, 9), 1e-3),
        (_EQUAL[0, 0, 0], [9], _r(9), None, 1e-5),
    ],
    aten.max.dim: _POSITIONS,
    aten.min.dim: _POSITIONS,
    aten.argmax.default: [*_POSITIONS, (_EQUAL,), (_EQUAL, None, True)],
    aten.argmin.default: [*_POSITIONS, (_EQUAL,), (_EQUAL, None, True)],
    aten.max_pool2d_with_indices.default: [(_EQUAL, [2, 2]), (_EQUAL, [2, 3]), (_EQUAL, [3, 1])],
}
_RULES: Final = rewrites(attention.REWRITES, norms.REWRITES, positions.REWRITES)


@pytest.mark.parametrize("operator", _CALLS, ids=str)
def test_rewrites(operator: OpOverload) -> None:
    keep = [0] if operator is aten.native_layer_norm.default else None
    assert_rewrites(_RULES[operator], _CALLS[operator], torch.float32, 2e-5, keep)
