# SPDX-License-Identifier: Apache-2.0
"""Samples of operators that resize images, and that sample them at positions."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tests.operators.sample import Maker, Sample, Samples, call, channels_last

_IMAGES = {1: (1, 2, 5), 2: (1, 2, 3, 4), 3: (1, 2, 2, 3, 4)}
_SIZES = {
    1: ([8], [3], [5], [10]),
    2: ([6, 5], [2, 8], [3, 4], [1, 1], [6, 12]),
    3: ([4, 2, 5], [2, 6, 8]),
}
_SCALES = {
    1: ([2.0], [1.7], [0.6]),
    2: ([2.0, 1.5], [1.7, 0.6], [2.0, 2.0]),
    3: ([2.0, 1.5, 1.0], [1.5, 2.0, 0.7]),
}


def _images(make: Maker, dims: int) -> Iterator[torch.Tensor]:
    yield make(*_IMAGES[dims])
    if dims == 2:
        yield channels_last(make(2, 3, 3, 4))


def vec(dims: int, *corners: bool) -> Samples:
    """Sizes, or scales that determine them; `corners` are the choices of `align_corners`, if there is one."""

    def samples(make: Maker) -> Iterator[Sample]:
        for rest in [(each,) for each in corners] or [()]:
            for image in _images(make, dims):
                for sizes in _SIZES[dims]:
                    yield call(image, sizes, *rest, None)
            for scales in _SCALES[dims]:
                yield call(make(*_IMAGES[dims]), None, *rest, scales)

    return samples


def sized(dims: int, *corners: bool) -> Samples:
    """Sizes, with scales or without; see `vec`."""

    def samples(make: Maker) -> Iterator[Sample]:
        for rest in [(each,) for each in corners] or [()]:
            for image in _images(make, dims):
                for sizes in _SIZES[dims]:
                    yield call(image, sizes, *rest)
            for scales in _SCALES[dims]:
                image = make(*_IMAGES[dims])
                sizes = [int(size * scale) for size, scale in zip(image.shape[2:], scales, strict=True)]
                yield call(image, sizes, *rest, *scales)

    return samples


def _grid_sampler(make: Maker) -> Iterator[Sample]:
    x, grid = make(1, 2, 4, 5), make(1, 3, 2, 2, low=-1.2, high=1.2)
    for mode in (0, 1, 2):
        for padding in (0, 1, 2):
            for corners in (False, True):
                yield call(x, grid, mode, padding, corners)
    yield call(channels_last(x), grid, 0, 0, False)


def _antialias(make: Maker) -> Iterator[Sample]:
    for corners in (False, True):
        yield call(make(1, 2, 6, 5), [3, 4], corners, None, None)
        yield call(make(1, 2, 3, 4), [6, 5], corners, None, None)
        for sizes in ([7, 8], [14, 3], [1, 1], [2, 31]):
            yield call(make(2, 3, 13, 17), sizes, corners, None, None)


_BOTH = (False, True)

RESIZE: dict[str, Samples] = {
    "_upsample_bicubic2d_aa.default": _antialias,
    "_upsample_bicubic2d_aa.vec": vec(2, *_BOTH),
    "_upsample_bilinear2d_aa.default": _antialias,
    "_upsample_bilinear2d_aa.vec": vec(2, *_BOTH),
    "_upsample_nearest_exact1d.default": sized(1),
    "_upsample_nearest_exact1d.vec": vec(1),
    "_upsample_nearest_exact2d.default": sized(2),
    "_upsample_nearest_exact2d.vec": vec(2),
    "_upsample_nearest_exact3d.vec": vec(3),
    "grid_sampler_2d.default": _grid_sampler,
    "upsample_bicubic2d.default": sized(2, *_BOTH),
    "upsample_bicubic2d.vec": vec(2, *_BOTH),
    "upsample_bilinear2d.default": sized(2, *_BOTH),
    "upsample_bilinear2d.vec": vec(2, *_BOTH),
    "upsample_linear1d.default": sized(1, *_BOTH),
    "upsample_linear1d.vec": vec(1, *_BOTH),
    "upsample_nearest1d.default": sized(1),
    "upsample_nearest1d.vec": vec(1),
    "upsample_nearest2d.default": sized(2),
    "upsample_nearest2d.vec": vec(2),
    "upsample_nearest3d.vec": vec(3),
    "upsample_trilinear3d.default": sized(3, *_BOTH),
    "upsample_trilinear3d.vec": vec(3, *_BOTH),
}
