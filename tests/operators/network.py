# SPDX-License-Identifier: Apache-2.0
"""Samples of the operators of neural networks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from tests.operators.elementwise import both
from tests.operators.geometry import adaptive_pools, average_pools, convolutions, maximum_pools, overlaps
from tests.operators.sample import Maker, Sample, Samples, call, channels_last, turned
from tests.operators.shape import of

NO_PAIR = [0, 0]


def _convolution(make: Maker) -> Iterator[Sample]:
    def conv(
        x: Any,
        w: Any,
        b: Any,
        stride: Any,
        pad: Any,
        dilation: Any,
        transposed: bool = False,
        out: Any = None,
        groups: int = 1,
    ) -> Sample:
        return call(x, w, b, stride, pad, dilation, transposed, out or [0] * len(stride), groups)

    x, w = make(2, 4, 6, 5), make(6, 4, 3, 2)
    yield conv(x, w, make(6), [1, 1], [0, 0], [1, 1])
    yield conv(x, w, None, [2, 1], [1, 2], [1, 2])
    yield conv(channels_last(x), w, make(6), [1, 2], [0, 1], [2, 1])
    yield conv(x, make(4, 1, 3, 3), None, [1, 1], [1, 1], [1, 1], groups=4)
    yield conv(x, make(6, 2, 1, 1), make(6), [1, 1], NO_PAIR, [1, 1], groups=2)
    yield conv(x, make(4, 3, 3, 2), make(3), [2, 1], [1, 0], [1, 1], True, [1, 0])
    yield conv(x, make(4, 3, 2, 2), make(6), [2, 2], [0, 0], [1, 1], True, groups=2)
    yield conv(make(4, 6, 5), w, make(6), [1, 1], [0, 0], [1, 1])
    yield conv(make(2, 4, 7), make(6, 4, 3), make(6), [2], [1], [1])
    yield conv(make(4, 7), make(6, 4, 3), make(6), [2], [1], [1])
    yield conv(make(2, 4, 7), make(4, 3, 2), None, [2], [0], [1], True, [1])
    yield conv(make(1, 2, 3, 4, 3), make(2, 2, 2, 2, 2), None, [1, 1, 1], [0, 0, 0], [1, 1, 1])
    yield conv(make(0, 4, 6, 5), w, make(6), [1, 1], [0, 0], [1, 1])


def _convolution_backward(make: Maker) -> Iterator[Sample]:
    yield call(
        make(1, 3, 4, 4),
        make(1, 2, 6, 6),
        make(3, 2, 3, 3),
        [3],
        [1, 1],
        NO_PAIR,
        [1, 1],
        False,
        NO_PAIR,
        1,
        [True] * 3,
    )


def _pool(*choices: tuple[Any, ...]) -> Samples:
    def samples(make: Maker) -> Iterator[Sample]:
        for choice in choices:
            yield call(make.distinct(1, 2, 6, 5), *choice)
        yield call(make.distinct(2, 6, 5), *choices[0])
        yield call(channels_last(make.distinct(1, 2, 6, 5)), *choices[0])

    return samples


def _max_pool_backward(make: Maker) -> Iterator[Sample]:
    x = make.distinct(1, 2, 4, 4)
    if make.dtype is torch.bool:
        return
    y, indices = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
    yield call(y, x, [2, 2], [2, 2], NO_PAIR, [1, 1], False, indices)


def _batch_norm(make: Maker) -> Iterator[Sample]:
    parameters = [make(3), make(3), make(3), make(3, low=0.5, high=2)]
    for sizes in ((2, 3), (2, 3, 4), (2, 3, 4, 2), (1, 3, 2, 1, 2)):
        yield call(make(*sizes), *parameters, 0.1, 1e-5)
    yield call(make(2, 3, 4), None, None, *parameters[2:], 0.1, 1e-5)
    yield call(channels_last(make(2, 3, 4, 2)), *parameters, 0.1, 1e-3)
    if make.dtype in (torch.float16, torch.bfloat16):
        wide = [make(3, dtype=torch.float32) for _ in range(3)] + [
            make(3, low=0.5, high=2, dtype=torch.float32)
        ]
        yield call(make(2, 3, 4, 2), *wide, 0.1, 1e-5)


def _batch_norm_legit(make: Maker) -> Iterator[Sample]:
    parameters = [make(3), make(3), make(3), make(3, low=0.5, high=2)]
    yield call(make(2, 3, 4), *parameters, False, 0.1, 1e-5)
    yield call(make(2, 3, 4, 2), None, None, *parameters[2:], False, 0.1, 1e-3)


def _batch_norm_no_stats(make: Maker) -> Iterator[Sample]:
    for sizes in ((8, 3), (2, 3, 4), (2, 3, 4, 2), (1, 3, 2, 1, 2)):
        yield call(make(*sizes), make(3), make(3), True, 0.1, 1e-5)
    yield call(channels_last(make(2, 3, 4, 2)), None, None, True, 0.1, 1e-3)


def _group_norm(make: Maker) -> Iterator[Sample]:
    for sizes in ((2, 4), (2, 4, 3), (2, 4, 3, 2), (1, 4, 2, 1, 2)):
        rest = torch.Size(sizes[2:]).numel()
        groups = 1 if rest == 1 else 2
        yield call(make(*sizes), make(4), make(4), sizes[0], 4, rest, groups, 1e-5)
        yield call(make(*sizes), None, None, sizes[0], 4, rest, 1, 1e-3)
    yield call(channels_last(make(2, 4, 3, 2)), make(4), None, 2, 4, 6, 4, 1e-5)


def _layer_norm(make: Maker) -> Iterator[Sample]:
    for sizes in ((3,), (2, 3), (2, 1, 3), (1, 2, 2, 3), (1, 2, 1, 2, 3), (0, 3)):
        yield call(make(*sizes), [3], make(3), make(3), 1e-5)
    yield call(make(2, 2, 3), [2, 3], make(2, 3), None, 1e-5)
    yield call(turned(make(2, 2, 3)), [3], None, None, 1e-3)
    yield call(make(2, 3, 2, 2, 3, 2), [2, 2, 3, 2], make(2, 2, 3, 2), make(2, 2, 3, 2), 1e-5)


def _adaptive_max_pool(make: Maker) -> Iterator[Sample]:
    for sizes in ([2, 3], [1, 1], [6, 5], [4, 2]):
        yield call(make.distinct(1, 2, 6, 5), sizes)
    yield call(make.distinct(2, 6, 5), [3, 5])
    yield call(channels_last(make.distinct(1, 2, 6, 5)), [2, 1])


def _max_pool3d(make: Maker) -> Iterator[Sample]:
    for choice in (
        ([2, 2, 2],),
        ([2, 3, 2], [1, 2, 1], [1, 1, 0]),
        ([2, 2, 2], [2, 2, 2], [1, 1, 1], [1, 2, 1], True),
        ([1, 2, 2], [1, 2, 2]),
    ):
        yield call(make.distinct(1, 2, 4, 6, 5), *choice)
    yield call(make.distinct(2, 4, 6, 5), [2, 2, 2])


def _col2im(make: Maker) -> Iterator[Sample]:
    yield call(make(1, 12, 12), [4, 5], [2, 2], [1, 1], [0, 0], [1, 1])
    yield call(make(2, 8, 4), [5, 4], [2, 2], [1, 1], [0, 0], [2, 2])
    yield call(make(2, 4, 9), [4, 4], [2, 2], [1, 1], [1, 1], [2, 2])
    yield call(make(4, 6), [4, 6], [2, 2], [1, 1], [0, 0], [2, 2])


def _rms_norm(make: Maker) -> Iterator[Sample]:
    for sizes in ((4,), (2, 4), (2, 3, 4), (1, 2, 3, 4)):
        yield call(make(*sizes), [4], make(4), 1e-5)
    yield call(make(2, 3, 4), [4], None, 1e-3)
    yield call(make(2, 3, 4), [3, 4], make(3, 4), None)
    yield call(turned(make(4, 3, 4)), [4], None, 1e-5)


def _attention(make: Maker) -> Iterator[Sample]:
    q, k, v = make(1, 2, 3, 4), make(1, 2, 5, 4), make(1, 2, 5, 6)
    yield call(q, k, v)
    yield call(q, k, v, make(3, 5))
    yield call(q, k, v, make(1, 1, 3, 5), scale=0.25)
    yield call(q, k, v, make(3, 5, dtype=torch.bool).logical_or(torch.eye(3, 5, dtype=torch.bool)))
    yield call(q, k[:, :, :3].contiguous(), v[:, :, :3].contiguous(), None, 0.0, True)
    yield call(make(3, 4), make(5, 4), make(5, 4))


def _dropout(make: Maker) -> Iterator[Sample]:
    yield call(make(2, 3), 0.5, False)
    yield call(make(2, 3), 0.0, True)


def _pads(dims: int) -> Samples:
    amounts = [1, 2, 2, 1, 1, 1][: 2 * dims]
    cut, ends = [-1, 2, 1, -2, 0, -1][: 2 * dims], [0, -1, 0, 0, 0, -1][: 2 * dims]
    sizes = (2, 3, 4, 5, 3)[: dims + 2]
    return both(
        of(sizes, (amounts,), ([0] * (2 * dims),)),
        of(sizes[1:], (amounts,)),
        lambda make: [call(make(*sizes), each) for each in ([1] * (2 * dims), cut, ends)],
    )


def _fft_r2c(make: Maker) -> Iterator[Sample]:
    yield call(make(2, 8), [1], 0, True)
    yield call(make(2, 8), [1], 0, False)


def _complex(make: Maker) -> torch.Tensor:
    real = make(2, 5, 2)
    return torch.view_as_complex(real) if real.dtype in (torch.float32, torch.float64) else real


def _fft_c2r(make: Maker) -> Iterator[Sample]:
    yield call(_complex(make), [1], 0, 8)


def _random(make: Maker) -> Iterator[Sample]:
    yield call([2, 3], dtype=make.dtype)


NETWORK: dict[str, Samples] = {
    "adaptive_max_pool2d.default": both(_adaptive_max_pool, adaptive_pools),
    "max_pool3d_with_indices.default": both(_max_pool3d, maximum_pools(3)),
    "col2im.default": both(_col2im, overlaps),
    "rms_norm.default": _rms_norm,
    "scaled_dot_product_attention.default": _attention,
    "_adaptive_avg_pool2d.default": both(_pool(([2, 3],), ([1, 1],), ([6, 5],), ([7, 2],)), adaptive_pools),
    "_fft_c2r.default": _fft_c2r,
    "_fft_r2c.default": _fft_r2c,
    "_native_batch_norm_legit.default": _batch_norm_legit,
    "_native_batch_norm_legit.no_stats": _batch_norm_no_stats,
    "_native_batch_norm_legit_no_training.default": _batch_norm,
    "avg_pool2d.default": both(
        _pool(
            ([2, 2],),
            ([3, 2], [1, 2], [1, 0]),
            ([2, 2], [2, 2], [1, 1], True, False),
            ([3, 3], [2, 2], [1, 1], False, True, 5),
        ),
        average_pools,
    ),
    "convolution.default": both(_convolution, convolutions),
    "convolution_backward.default": _convolution_backward,
    "glu.default": both(of((4, 6), (), (0,), (-1,)), of((2, 1, 2, 1, 4), (4,))),
    "max_pool2d_with_indices.default": both(
        _pool(([2, 2],), ([3, 2], [1, 2], [1, 0]), ([2, 2], [2, 2], [1, 1], [1, 2], True), ([3, 3], [2, 2])),
        maximum_pools(2),
    ),
    "max_pool2d_with_indices_backward.default": _max_pool_backward,
    "native_dropout.default": _dropout,
    "native_group_norm.default": _group_norm,
    "native_layer_norm.default": _layer_norm,
    "pixel_shuffle.default": both(
        of((1, 8, 2, 3), (2,), (1,)), of((8, 2, 3), (2,)), of((1, 2, 8, 2, 1), (2,))
    ),
    "pixel_unshuffle.default": both(
        of((1, 2, 4, 6), (2,), (1,)), of((2, 4, 6), (2,)), of((1, 2, 2, 4, 2), (2,))
    ),
    "rand.default": _random,
    "randn.default": _random,
    "reflection_pad1d.default": _pads(1),
    "reflection_pad2d.default": _pads(2),
    "reflection_pad3d.default": _pads(3),
    "replication_pad1d.default": _pads(1),
    "replication_pad2d.default": _pads(2),
    "replication_pad3d.default": _pads(3),
    "view_as_real_copy.default": lambda make: [call(_complex(make))],
}
