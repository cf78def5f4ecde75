# SPDX-License-Identifier: Apache-2.0
"""Comparisons by clamped differences have the results of eager mode, except for NaN."""

from __future__ import annotations

import math
from typing import Any, Final

import pytest
import torch
from torch._ops import OpOverload

from delegatec.backends.xnnpack.operators.rewrites.bools import REWRITES
from delegatec.edge.legalize.rule import rewrites
from delegatec.edge.testing import assert_rewrites

aten = torch.ops.aten

_EDGES: Final = torch.tensor([0.0, -0.0, 0.5, -0.5, 1.001, 1.0, 6e4, -6e4, math.inf, -math.inf])
_PAIRS: Final = (_EDGES.repeat_interleave(len(_EDGES)), _EDGES.repeat(len(_EDGES)))
_BOOLS: Final = (torch.tensor([True, False, True, False]), torch.tensor([True, True, False, False]))
_SCALARS: Final = (0.0, 1.0, 65504.0, math.inf, -math.inf, math.nan)
_CALLS: Final[dict[str, list[tuple[Any, ...]]]] = {
    "Tensor": [_PAIRS, (_EDGES, _EDGES[2]), _BOOLS, (_BOOLS[0], _EDGES[:4])],
    "Scalar": [*((_EDGES, scalar) for scalar in _SCALARS), (_BOOLS[0], 0.5), (_BOOLS[0], True)],
    "isinf": [(_EDGES,)],
    "_to_copy": [(_EDGES, {"dtype": torch.bool})],
}
_RULES: Final = rewrites(REWRITES)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("operator", _RULES, ids=str)
def test_rewrites(operator: OpOverload, dtype: torch.dtype) -> None:
    calls = _CALLS.get(operator._overloadname) or _CALLS[operator._opname]
    assert_rewrites(_RULES[operator], calls, dtype, 0.0)
