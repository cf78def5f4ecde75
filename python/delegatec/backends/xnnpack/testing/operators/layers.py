# SPDX-License-Identifier: Apache-2.0
"""Matrix products, attention, normalization and reductions."""

from __future__ import annotations

import math
from typing import Any, Final

import torch

from delegatec.backends.common.testing import X, Y, floats
from delegatec.backends.xnnpack.testing.operators.case import Case

functional = torch.nn.functional
_BATCH: Final = torch.export.Dim("batch", min=2, max=64)
_ROWS: Final = floats(5, 4), floats(64, 4), floats(2, 4)
_WEIGHT, _BIAS = floats(4, 4, seed=5), floats(4, seed=6)
_IMAGE: Final = floats(2, 4, 5, 6)
_QUERY, _KEY, _VALUE = floats(2, 4, 5, 8), floats(2, 4, 6, 8, seed=1), floats(2, 4, 6, 8, seed=2)
_SHARED: Final = _KEY[:, :2], _VALUE[:, :2]
_KEPT: Final = torch.cat([torch.zeros(2, 1, 1, 6), floats(2, 1, 4, 6, seed=3)], 2) > 0.0
_SHIFT: Final = torch.where(_KEPT, floats(2, 1, 5, 6, seed=4), -math.inf)


def _perceptron() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).eval()


def _affine(norm: torch.nn.Module) -> torch.nn.Module:
    torch.manual_seed(0)
    for parameter in norm.parameters():
        torch.nn.init.normal_(parameter)
    return norm.eval()


def _attention(**options: Any) -> Any:
    return lambda *args: functional.scaled_dot_product_attention(*args, **options)


_PRODUCTS: Final = {
    "linear": Case(_affine(torch.nn.Linear(4, 5)), (X,), "FullyConnected"),
    "linear-no-bias": Case(_affine(torch.nn.Linear(4, 5, bias=False)), (X,), "FullyConnected"),
    "linear-computed": Case(functional.linear, (X, floats(5, 4), floats(5)), "FullyConnected"),
    "mm": Case(torch.mm, (X[0], floats(4, 5)), "FullyConnected"),
    "linear-computed-filter": Case(
        lambda x, y: functional.linear(x, y, _BIAS), (X, floats(4, 4)), "FullyConnected Add"
    ),
    "linear-computed-bias": Case(
        lambda x, y: functional.linear(x, _WEIGHT, y.exp()), (X, floats(4)), "Exp FullyConnected Add"
    ),
    "addmm": Case(torch.addmm, (floats(5), X[0], floats(4, 5)), "FullyConnected"),
    "addmm-matrix": Case(torch.addmm, (floats(3, 5), X[0], floats(4, 5)), "FullyConnected Add"),
    "addmm-factors": Case(
        lambda a, x, y: torch.addmm(a, x, y, alpha=2, beta=3),
        (floats(5), X[0], floats(4, 5)),
        "FullyConnected Multiply Multiply Add",
    ),
    "bmm": Case(torch.bmm, (X, Y.mT.contiguous()), "BatchMatrixMultiply"),
    "transposed": Case(lambda x, y: x @ y.mT, (X, Y), "BatchMatrixMultiply"),
    "transposed-filter": Case(
        lambda x, y: x.neg() @ y.neg().t(), (X[0], Y[0]), "Negate Negate FullyConnected"
    ),
    "linear-with-its-bias-again": Case(
        lambda x: (functional.linear(x, _WEIGHT, _BIAS) * _BIAS, _BIAS - x),
        (_ROWS[0],),
        "FullyConnected Multiply Subtract",
    ),
    "linear-with-its-filter-again": Case(
        lambda x: functional.linear(x, _WEIGHT).unsqueeze(1) + _WEIGHT,
        (_ROWS[0],),
        "FullyConnected Reshape Add",
    ),
    "perceptron": Case(
        _perceptron(),
        _ROWS[:1],
        "FullyConnected Gelu FullyConnected",
        ({0: _BATCH},),
        tuple((rows,) for rows in _ROWS[1:]),
    ),
}

_ATTENTION: Final = {
    "attention": Case(
        _attention(),
        (_QUERY, _KEY, _VALUE),
        "Multiply BatchMatrixMultiply Softmax BatchMatrixMultiply",
        ({0: _BATCH},) * 3,
        (tuple(each.repeat(3, 1, 1, 1) for each in (_QUERY, _KEY, _VALUE)),),
    ),
    "attention-causal": Case(_attention(is_causal=True), (_QUERY, _KEY, _VALUE)),
    "attention-bool-mask": Case(_attention(), (_QUERY, _KEY, _VALUE, _KEPT)),
    "attention-float-mask": Case(_attention(), (_QUERY, _KEY, _VALUE, _SHIFT)),
    "attention-constant-masks": Case(
        lambda *args: (_attention()(*args, _KEPT), _attention()(*args, _SHIFT)), (_QUERY, _KEY, _VALUE)
    ),
    "attention-shared-heads": Case(_attention(enable_gqa=True), (_QUERY, *_SHARED)),
    "attention-shared-heads-causal": Case(_attention(enable_gqa=True, is_causal=True), (_QUERY, *_SHARED)),
    "attention-shared-heads-mask": Case(_attention(enable_gqa=True), (_QUERY, *_SHARED, _KEPT)),
    "attention-shared-heads-own-masks": Case(
        _attention(enable_gqa=True), (_QUERY, *_SHARED, _SHIFT.expand(2, 4, 5, 6).contiguous())
    ),
    "attention-rank-3": Case(_attention(scale=0.3), (_QUERY[0], _KEY[0], _VALUE[0])),
}

_NORMALIZATION: Final = {
    "layer-norm": Case(_affine(torch.nn.LayerNorm(4)), (X,)),
    "layer-norm-rows": Case(
        _affine(torch.nn.LayerNorm(4)), _ROWS[:1], "", ({0: _BATCH},), ((_ROWS[1],), (_ROWS[2],))
    ),
    "layer-norm-planes": Case(_affine(torch.nn.LayerNorm((3, 4))), (X,)),
    "group-norm": Case(_affine(torch.nn.GroupNorm(2, 4)), (_IMAGE,)),
    "rms-norm": Case(_affine(torch.nn.RMSNorm(4)), (X,)),
}


def _reduced(dims: Any) -> Case:
    """Reduces in all ways."""

    def function(x: torch.Tensor) -> Any:
        x = x + 0.0
        return x.mean(dims), x.sum(dims, keepdim=True), x.amax(dims), x.amin(dims, keepdim=True)

    return Case(function, (_IMAGE,))


_REDUCTIONS: Final = {
    **{
        f"reduced-{dims}": _reduced(dims)
        for dims in ((0,), (1,), (3,), (0, 2), (1, 2), (2, 3), (0, 1, 2, 3), (-1, 0))
    },
    "reduced-with-columns-that-vary": Case(
        lambda x: ((x + 0.0).mean(0), (x + 0.0).sum(1, keepdim=True), (x + 0.0).amax(0), (x > 0.0).any(1)),
        (X,),
        sizes=({2: _BATCH},),
        more=((floats(*X.shape[:2], 9),), (floats(*X.shape[:2], 2),)),
    ),
    "log-softmax-with-columns-that-vary": Case(
        lambda x: x.log_softmax(1), (X,), sizes=({2: _BATCH},), more=((floats(*X.shape[:2], 9),),)
    ),
    "reduced-to-one": Case(lambda x: (x.mean(), x.sum(), x.max(), x.min()), (X,)),
    "deviation": Case(lambda x: (x.std(-1), x.var((0, 1))), (X,)),
    "softmax": Case(lambda x: x.softmax(-1), (X,), "Softmax"),
    "softmax-columns": Case(lambda x: x.softmax(0), (X,), "Transpose Softmax Transpose"),
    "log-softmax": Case(lambda x: x.log_softmax(1), (X * 30,)),
    "largest-of-rows": Case(lambda x: (x.neg().max(-1)[0], x.neg().min(1, keepdim=True)[0]), (X,)),
    "cumsum": Case(lambda x: x.cumsum(1), (X,)),
}

CASES: Final[dict[str, Case]] = {**_PRODUCTS, **_ATTENTION, **_NORMALIZATION, **_REDUCTIONS}
