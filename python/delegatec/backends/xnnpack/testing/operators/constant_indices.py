# SPDX-License-Identifier: Apache-2.0
"""Elements at constant indices of a dimension, and weighted sums of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch.nn import functional as f

from delegatec.backends.common.testing import Function, floats
from delegatec.backends.xnnpack.testing.operators.case import Case

_X: Final = floats(2, 4, 7, 9)
_BATCH: Final = torch.export.Dim("batch", min=2, max=8)
_HEIGHT: Final = torch.export.Dim("height", min=2, max=16)
_WIDTH: Final = torch.export.Dim("width", min=2, max=16)
_MORE: Final = ((floats(8, 4, 7, 9),), (floats(3, 4, 7, 9),))


def _chosen(operations: str, function: Function, *, varies: bool = False) -> Case:
    """Selects from the result of an operation: moves alone are not worth a delegate."""
    sizes: Sequence[dict[int, Any]] = ({0: _BATCH},) if varies else ()
    return Case(lambda x: function(x.neg()), (_X,), operations, sizes, _MORE if varies else ())


def _resized(mode: str, size: Any = None, factor: Any = None, **options: Any) -> Case:
    return Case(lambda x: f.interpolate(x, size, factor, mode, **options), (_X,), rtol=1e-4)


_CHOICES: Final = {
    "reflection": _chosen("", lambda x: f.pad(x, (1, 2, 3, 1), mode="reflect"), varies=True),
    "replication": _chosen("", lambda x: f.pad(x, (1, 2, 0, 3), mode="replicate"), varies=True),
    "circular": _chosen("", lambda x: f.pad(x, (1, 2, 0, 3), mode="circular"), varies=True),
    "reflection before a convolution": Case(
        torch.nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"),
        (_X,),
        "Transpose Slice Slice Concatenate3 Slice Slice Concatenate3 Convolution Transpose",
    ),
    "flip": _chosen("Negate Slice Slice Slice Slice Concatenate4", lambda x: x.flip(1), varies=True),
    "flip of many": Case(lambda x: x.neg().flip(1), (floats(3, 50),), "Negate FullyConnected"),
    "index": _chosen("Negate Slice Slice Concatenate3", lambda x: x[:, [2, -2, 0]], varies=True),
    "index of matrices": _chosen("", lambda x: x[:, :, torch.tensor([[0, 3], [5, 1]])]),
    "indices of two dimensions": _chosen(
        "Negate Reshape Slice Slice Slice Concatenate3",
        lambda x: x[:, torch.tensor([0, 1, -1]), torch.tensor([2, -7, 6])],
        varies=True,
    ),
    "indices that broadcast": _chosen(
        "", lambda x: x[:, :, torch.tensor([[1], [4]]), torch.tensor([8, 0, 3])]
    ),
    "index of bools": Case(lambda x: (x > 0)[[1, 0, 1]], (_X,)),
    "windows": _chosen("", lambda x: x.unfold(3, 3, 1), varies=True),
    "windows in steps": _chosen("", lambda x: x.unfold(2, 4, 2)),
    "windows with gaps": _chosen("", lambda x: x.unfold(1, 1, 2)),
    "long windows": _chosen("", lambda x: x.unfold(2, 5, 1)),
    "frames": Case(lambda x: x.neg().unfold(-1, 40, 16), (floats(2, 1000),)),
    "nearest": Case(lambda x: f.interpolate(x, (10, 13)), (_X,)),
    "nearest, to many": Case(
        lambda x: f.interpolate(x, (31, 40), mode="nearest-exact"), (floats(2, 4, 30, 9),)
    ),
    "nearest of lines": Case(lambda x: f.interpolate(x, 13), (_X[0],)),
}
_SIZES: Final = {
    "bilinear factor": _resized("bilinear", factor=1.7),
    "bilinear factors of a line": Case(
        lambda x: f.interpolate(x, scale_factor=1.7, mode="linear"), (_X[0],), rtol=1e-4
    ),
    "bicubic": _resized("bicubic", factor=2.0),
    "bicubic corners": _resized("bicubic", (5, 20), align_corners=True),
    "bicubic antialias": _resized("bicubic", (5, 4), antialias=True),
    "bilinear antialias": _resized("bilinear", (5, 4), antialias=True),
    "bilinear antialias factor": _resized("bilinear", factor=(0.6, 1.3), antialias=True),
    "trilinear": Case(
        lambda x: f.interpolate(x, scale_factor=(2, 1.5, 1), mode="trilinear"), (floats(1, 2, 3, 4, 5),)
    ),
    "bicubic of a batch that varies": Case(
        lambda x: f.interpolate(x, (5, 20), mode="bicubic"),
        (_X,),
        "BatchMatrixMultiply FullyConnected",
        ({0: _BATCH},),
        _MORE,
        rtol=1e-4,
    ),
    "nearest of images that vary": Case(
        lambda x: f.interpolate(x, scale_factor=(2.0, 3.0)),
        (_X,),
        "Transpose TransposedConvolution Transpose",
        ({2: _HEIGHT, 3: _WIDTH},),
        ((floats(2, 4, 2, 16),), (floats(2, 4, 16, 5),)),
    ),
    "nearest to the sizes of another image": Case(
        lambda x, y: f.interpolate(x, y.shape[2:], mode="nearest-exact") + y,
        (_X, floats(2, 4, 14, 9)),
        "",
        ({2: _HEIGHT, 3: _WIDTH}, {2: 2 * _HEIGHT, 3: _WIDTH}),
        ((floats(2, 4, 2, 16), floats(2, 4, 4, 16)),),
    ),
    "nearest of lines that vary": Case(
        lambda x: f.interpolate(x, scale_factor=2.0), (_X[0],), "", ({2: _WIDTH},), ((floats(4, 7, 16),),)
    ),
    "bicubic between convolutions": Case(
        torch.nn.Sequential(
            torch.nn.Conv2d(4, 6, 3),
            torch.nn.Upsample(scale_factor=2, mode="bicubic"),
            torch.nn.Conv2d(6, 2, 3),
        ),
        (_X,),
        rtol=1e-4,
    ),
}
CASES: Final[dict[str, Case]] = {
    f"indices-{name}".replace(", ", "-").replace(" ", "-"): case
    for name, case in {**_CHOICES, **_SIZES}.items()
}
