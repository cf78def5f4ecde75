# SPDX-License-Identifier: Apache-2.0
"""Each rewrite of a norm or a softmax has the results of its operator."""

from __future__ import annotations

import math
from typing import Any, Final

import pytest
import torch
from torch._ops import OpOverload

from delegatec.edge.builder import Builder
from delegatec.edge.legalize.engine import replace
from delegatec.edge.legalize.rule import Rewrite, rewrites
from delegatec.edge.legalize.rules import batch_norm, layer_norm, softmax
from delegatec.edge.testing import Function, assert_computes, assert_rewrites, edge

aten = torch.ops.aten

_BATCH_NORM: Final = aten._native_batch_norm_legit_no_training.default
_REWRITES: Final = rewrites(
    batch_norm.REWRITES,
    layer_norm.REWRITES,
    (layer_norm.BY_ARITHMETIC, layer_norm.OF_ROWS, layer_norm.RMS_OF_ROWS, layer_norm.GROUP_NORM_OF_IMAGES),
    softmax.REWRITES,
    softmax.BY_ARITHMETIC,
    (softmax.LAST_DIMENSION,),
)


def _quarters(*shape: int, seed: int = 0) -> torch.Tensor:
    """Multiples of 1/4: float16 holds them and their sums."""
    return torch.randint(-8, 9, shape, generator=torch.Generator().manual_seed(seed)) / 4


# Five dimensions, of which the last two have 12 elements.
_MANY: Final = _quarters(2, 2, 2, 3, 4)
_SCALE, _SHIFT = _quarters(3, 4, seed=4), _quarters(3, 4, seed=5)
_STATISTICS: Final = (_SCALE[0, :2], _SCALE[1, :2].abs() + 0.5, 0.1, 1e-3)
_SMALL: Final = torch.linspace(-0.9, 0.9, 37)
_SOFTMAX: Final = [
    *((_MANY, dim, False) for dim in (0, 2, -1)),
    (_SMALL.view(1, 37), 1, False),
    (torch.tensor([[0.0, 200.0, -3.0], [1.0, -math.inf, 2.0]]), -1, False),
    (torch.tensor(2.5), 0, False),
    (_SMALL[:32].view(2, 2, 2, 2, 2), 1, False),
]
_CASES: Final[dict[OpOverload, list[tuple[Any, ...]]]] = {
    aten._softmax.default: _SOFTMAX,
    aten._log_softmax.default: _SOFTMAX,
    _BATCH_NORM: [(_MANY, *_SHIFT[:2, :2], *_STATISTICS), (_MANY, None, None, *_STATISTICS)],
    aten.native_layer_norm.default: [
        (_MANY, [3, 4], _SCALE, _SHIFT, 1e-3),
        (_MANY, [4], None, _SHIFT[0], 1e-3),
    ],
    aten.rms_norm.default: [(_MANY, [3, 4], _SCALE, 1e-3), (_MANY, [2, 3, 4], None, None)],
    aten.native_group_norm.default: [
        (_MANY.view(2, 2, 24), _SCALE[0, :2], None, 2, 2, 24, 1, 1e-3),
        (_MANY[0], None, _SHIFT[0, :2], 2, 2, 12, 2, 1e-3),
        (_MANY, _SCALE[0, :2], _SHIFT[0, :2], 2, 2, 24, 2, 1e-3),
    ],
}
_TOLERANCE: Final = {torch.float32: 2e-6, torch.float16: 2e-3}


def test_every_rewrite_has_cases() -> None:
    assert set(_CASES) == set(_REWRITES)


@pytest.mark.parametrize("dtype", _TOLERANCE, ids=str)
@pytest.mark.parametrize("operator", _CASES, ids=str)
def test_replacements_have_the_same_results(operator: OpOverload, dtype: torch.dtype) -> None:
    assert_rewrites(_REWRITES[operator], _CASES[operator], dtype, _TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", _TOLERANCE, ids=str)
@pytest.mark.parametrize(
    "rewrite", [batch_norm.by_constants(), batch_norm.by_constants(wide=True), batch_norm.BY_ARITHMETIC]
)
@pytest.mark.parametrize("affine", [False, True])
def test_a_batch_norm_at_inference_is_a_product_and_a_sum(
    dtype: torch.dtype, rewrite: Rewrite, affine: bool
) -> None:
    mean, variance, _, eps = _STATISTICS
    names = ("mean", "variance", "weight", "bias")
    buffers = dict(zip(names, (mean, variance, *_SHIFT[:2, :2]), strict=True))

    def normalized(own: Any, x: torch.Tensor) -> Any:
        parameters = (own.weight, own.bias) if affine else (None, None)
        return _BATCH_NORM(x, *parameters, own.mean, own.variance, 0.1, eps)[0]

    model, x = (
        Function(normalized, **{name: each.to(dtype) for name, each in buffers.items()}),
        _MANY.to(dtype),
    )
    wanted, program = model(x), edge(model, x, passes=(), preserve=[_BATCH_NORM])
    (node,) = (each for each in program.graph.nodes if each.target is _BATCH_NORM)
    replace(node, rewrite(Builder(program).at(node), node))
    program.graph.eliminate_dead_code()
    assert_computes(program, wanted, x, rtol=_TOLERANCE[dtype], atol=2 * _TOLERANCE[dtype])
