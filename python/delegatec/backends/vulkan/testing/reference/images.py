# SPDX-License-Identifier: Apache-2.0
"""Operators on images, gathers and tensor creation, with their results, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.vulkan.reference.testing import BUFFER, CHANNELS, HEIGHT, WIDTH, Placement
from delegatec.backends.vulkan.testing.reference.cases import Case, Constant, random

_TEXTURES: Final = (WIDTH, HEIGHT, CHANNELS)
_ROWS: Final = (BUFFER, WIDTH)
_IMAGE: Final = random(1, 6, 9, 8)
K = Constant


def _convolution(
    weight: torch.Tensor,
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    bias: bool = True,
    bounds: Sequence[float] = (),
    x: torch.Tensor = _IMAGE,
    placements: Sequence[Placement] = (CHANNELS,),
) -> Case:
    added = random(weight.shape[0]) if bias else None
    function = F.conv2d if x.dim() == 4 else F.conv1d
    expected = function(x, weight, added, stride, padding, dilation, groups)
    spatial = x.dim() - 2
    lists = [[each] * spatial for each in (stride, padding, dilation)]
    arguments = [x, K(weight), None if added is None else K(added), *lists, False, [0] * spatial, groups]
    if bounds:
        expected = expected.clamp(*bounds)
    name = "et_vk.conv_with_clamp.default" if bounds else "aten.convolution.default"
    return Case(name, [*arguments, *bounds], expected, placements)


def _transposed(groups: int, placements: Sequence[Placement]) -> Case:
    weight, bias = random(6, 4, 3, 3), random(4 * groups)
    expected = F.conv_transpose2d(_IMAGE, weight, bias, 2, 1, 1, groups)
    arguments = [_IMAGE, K(weight), K(bias), [2, 2], [1, 1], [1, 1], True, [1, 1], groups]
    return Case("aten.convolution.default", arguments, expected, placements)


_SIGNAL, _SIGNALS = random(1, 6, 11), random(3, 6, 11)
_COLUMNS: Final = (HEIGHT,)

CONVOLUTION: Final = [
    replace(_convolution(random(5, 6, 3, 3)), name="conv_with_clamp.default"),
    _convolution(random(5, 6, 3, 3)),
    _convolution(random(5, 6, 3, 2), stride=2, padding=1),
    _convolution(random(5, 6, 3, 3), dilation=2, padding=2, bias=False),
    _convolution(random(5, 6, 3, 3), padding=1, bounds=(-0.5, 2.0)),
    _convolution(random(130, 6, 3, 3), padding=1),
    _convolution(random(130, 6, 3, 3), stride=2, bounds=(0.0, 6.0)),
    _convolution(random(5, 6, 1, 1)),
    _convolution(random(5, 6, 1, 1), stride=2, padding=1, bounds=(0.0, 3.0)),
    _convolution(random(6, 1, 3, 3), padding=1, groups=6),
    _convolution(random(6, 1, 3, 3), stride=2, padding=1, groups=6, bounds=(-1.0, 1.0)),
    _convolution(random(6, 1, 5, 5), padding=2, groups=6),
    _convolution(random(6, 1, 5, 5), stride=2, padding=2, groups=6),
    _convolution(random(6, 1, 2, 4), groups=6),
    _convolution(random(6, 1, 7, 7), padding=3, groups=6, placements=()),
    _convolution(random(6, 1, 7, 7), stride=2, groups=6, placements=()),
    _convolution(random(6, 1, 1, 3), padding=0, groups=6),
    _convolution(random(8, 4, 3, 3), groups=2, x=random(1, 8, 6, 6)),
    _convolution(random(6, 3, 3, 3), groups=2, placements=()),
    _convolution(random(6, 3, 1, 1), groups=2, placements=()),
    _convolution(random(5, 6, 3, 3), x=random(2, 6, 5, 5), placements=()),
    _transposed(1, (CHANNELS,)),
    _transposed(2, ()),
    _convolution(random(5, 6, 3), x=_SIGNAL, padding=1, placements=(CHANNELS,)),
    _convolution(random(6, 2, 3), x=_SIGNALS, stride=2, groups=3, placements=(CHANNELS,)),
    _convolution(random(5, 6, 3), x=_SIGNALS, dilation=2, bounds=(0.0, 1.0), placements=(CHANNELS,)),
    _convolution(random(5, 6, 1), x=_SIGNALS, placements=(CHANNELS, HEIGHT)),
    _convolution(random(6, 1, 3), x=_SIGNALS, groups=6, padding=1, placements=(CHANNELS, HEIGHT)),
    _convolution(random(6, 1, 3), x=_SIGNAL, groups=6, stride=2, bias=False, placements=(CHANNELS, HEIGHT)),
]


def _max_pool(size: int, stride: int, padding: int, dilation: int, up: bool = False) -> Case:
    lists = [[each] * 2 for each in (size, stride, padding, dilation)]
    values, placements = F.max_pool2d(_IMAGE, size, stride, padding, dilation, up, return_indices=True)
    arguments: list[Any] = [_IMAGE, *lists, up]
    return Case("aten.max_pool2d_with_indices.default", arguments, [values, placements.int()], (CHANNELS,))


def _avg_pool(
    size: int, stride: int, padding: int, up: bool = False, padded: bool = True, divisor: int | None = None
) -> Case:
    expected = F.avg_pool2d(_IMAGE, size, stride, padding, up, padded, divisor)
    arguments = [_IMAGE, *([each] * 2 for each in (size, stride, padding)), up, padded, divisor]
    return Case("aten.avg_pool2d.default", arguments, expected, (CHANNELS,))


_GRID: Final = random(1, 4, 5, 2)

IMAGES: Final = [
    _max_pool(3, 2, 1, 1),
    _max_pool(3, 2, 0, 1, up=True),
    _max_pool(2, 1, 0, 2),
    Case(
        "aten.max_pool2d.default",
        [_IMAGE, [2, 3], [2, 3], [0, 1], [1, 1], False],
        F.max_pool2d(_IMAGE, (2, 3), (2, 3), (0, 1)),
        (CHANNELS,),
    ),
    _avg_pool(3, 2, 1),
    _avg_pool(3, 2, 1, up=True),
    _avg_pool(3, 2, 1, padded=False),
    _avg_pool(3, 2, 1, up=True, padded=False),
    _avg_pool(2, 2, 0, divisor=3),
    Case(
        "aten.upsample_nearest2d.vec", [_IMAGE, [18, 24], None], F.interpolate(_IMAGE, (18, 24)), (CHANNELS,)
    ),
    Case(
        "aten.upsample_nearest2d.vec",
        [_IMAGE, None, [2.0, 2.0]],
        F.interpolate(_IMAGE, scale_factor=2),
        (CHANNELS,),
    ),
    *(
        Case(
            "aten.upsample_bilinear2d.vec",
            [_IMAGE, [13, 15], corners, None],
            F.interpolate(_IMAGE, (13, 15), mode="bilinear", align_corners=corners),
            (CHANNELS,),
        )
        for corners in (False, True)
    ),
    Case(
        "aten.grid_sampler_2d.default",
        [_IMAGE, _GRID, 0, 1, True],
        F.grid_sample(_IMAGE, _GRID, "bilinear", "border", True),
        (CHANNELS,),
        {1: BUFFER},
    ),
    Case("aten.pixel_shuffle.default", [random(2, 8, 3, 2), 2], torch.empty(0)),
]
_SHUFFLED = IMAGES[-1].arguments[0]
IMAGES[-1] = Case("aten.pixel_shuffle.default", [_SHUFFLED, 2], F.pixel_shuffle(_SHUFFLED, 2))

_X: Final = random(3, 5, 4)
_POSITIONS_IN_X = torch.tensor([[[0, 1, 2, 3]], [[3, 2, 1, 0]], [[1, 1, 1, 2]]], dtype=torch.int32)
_TOKENS = torch.tensor([[1, 5, 0], [6, 2, 2]], dtype=torch.int32)
_TABLE: Final = random(7, 6)
_ORDER = torch.tensor([2, 0, 1], dtype=torch.int32)

GATHERS: Final = [
    Case(
        "aten.embedding.default",
        [K(_TABLE), _TOKENS, -1, False, False],
        _TABLE[_TOKENS.long()],
        (BUFFER, WIDTH, CHANNELS),
    ),
    Case(
        "aten.embedding.default",
        [K(_TABLE), _ORDER, -1, False, False],
        _TABLE[_ORDER.long()],
        (BUFFER, WIDTH, CHANNELS),
    ),
    Case("aten.gather.default", [_X, 2, _POSITIONS_IN_X, False], _X.gather(2, _POSITIONS_IN_X.long())),
    Case("aten.gather.default", [_X, 1, _POSITIONS_IN_X, False], _X.gather(1, _POSITIONS_IN_X.long())),
    Case("aten.index.Tensor", [_X[0, 0], [_POSITIONS_IN_X]], _X[0, 0][_POSITIONS_IN_X.long()]),
    *(
        Case(
            "aten.index_select.default", [_X, axis, _ORDER], _X.index_select(axis, _ORDER.long()), (CHANNELS,)
        )
        for axis in (0, 1, -1)
    ),
    Case("aten.index_select.default", [random(3, 5, 2, 2), 0, _ORDER], torch.empty(0), (CHANNELS,)),
]
_SELECTED = GATHERS[-1].arguments[0]
GATHERS[-1] = Case(
    "aten.index_select.default", [_SELECTED, 0, _ORDER], _SELECTED.index_select(0, _ORDER.long()), (CHANNELS,)
)

CREATION: Final = [
    Case("aten.full.default", [[2, 5], 1.5, None, None, None, None], torch.full((2, 5), 1.5)),
    Case("aten.zeros_like.default", [_X, None, None, None, None, None], torch.zeros_like(_X)),
    Case("aten.zeros.default", [[3], None, None, None, None], torch.zeros(3)),
    Case("aten.ones_like.default", [_X, None, None, None, None, None], torch.ones_like(_X)),
    Case("aten.full_like.default", [_X, 0.5, None, None, None, None, None], torch.full_like(_X, 0.5)),
    Case(
        "et_vk.grid_priors.default",
        [_X, 8, 0.5],
        torch.cartesian_prod(torch.arange(5.0), torch.arange(4.0)).flip(1) * 8 + 4,
        (CHANNELS,),
    ),
    Case("aten.ones.default", [[3], None, None, None, None], torch.ones(3)),
    Case("aten.full.default", [[3], 4, None, None, None, None], torch.full((3,), 4, dtype=torch.int32)),
    Case(
        "aten.arange.start_step",
        [1, 12, 3, None, None, None, None],
        torch.arange(1, 12, 3, dtype=torch.int32),
    ),
    Case("aten.arange.start_step", [None, 5, None, None, None, None, None], torch.arange(5.0)),
    Case("aten.scalar_tensor.default", [2.5, None, None, None, None], torch.tensor(2.5)),
    Case("aten.scalar_tensor.default", [3, None, None, None, None], torch.tensor(3, dtype=torch.int32), ()),
    Case("aten.constant_pad_nd.default", [_X, [1, 2, 0, 3], 0.5], F.pad(_X, (1, 2, 0, 3), value=0.5)),
    Case("aten.constant_pad_nd.default", [random(1, 3, 4, 5), [0, 0, 1, 1, 2, 0, 0, 1], 0.0], torch.empty(0)),
]
_PADDED = CREATION[-1].arguments[0]
CREATION[-1] = Case(
    "aten.constant_pad_nd.default",
    [_PADDED, [0, 0, 1, 1, 2, 0, 0, 1], 0.0],
    F.pad(_PADDED, (0, 0, 1, 1, 2, 0, 0, 1)),
)
