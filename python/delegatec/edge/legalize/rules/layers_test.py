# SPDX-License-Identifier: Apache-2.0
"""Each rewrite of a layer, a movement or a conversion has the results of its operator."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch._ops import OpOverload

from delegatec.edge.builder import Builder
from delegatec.edge.legalize.engine import replace
from delegatec.edge.legalize.rule import Rewrite, rewrites
from delegatec.edge.legalize.rules import (
    adaptive_pooling,
    arithmetic,
    convolution,
    convolution_in_parts,
    creation,
    gather,
    interpolation,
    linear,
    overlap,
    padding,
    pooling,
    quantized,
    ranks,
    resize,
    sampling,
    slicing,
    transposed_convolution,
)
from delegatec.edge.quantization.operators import DEQUANTIZE_BLOCKS
from delegatec.edge.testing import assert_computes, assert_rewrites, call_program

aten = torch.ops.aten


REWRITES = rewrites(
    arithmetic.REWRITES,
    slicing.REWRITES,
    convolution_in_parts.REWRITES,
    convolution.REWRITES,
    transposed_convolution.REWRITES,
    creation.REWRITES,
    linear.REWRITES,
    (linear.ADDMM_BY_MM, linear.LINEAR_BY_MM, linear.LINEAR_OF_ROWS),
    overlap.REWRITES,
    padding.REWRITES,
    padding.BY_SLICES,
    pooling.REWRITES,
    adaptive_pooling.REWRITES,
    resize.REWRITES,
    interpolation.REWRITES,
    sampling.REWRITES,
    quantized.REWRITES,
)


def _quarters(*shape: int, seed: int = 0) -> torch.Tensor:
    """Multiples of 1/4: float16 holds them and their sums."""
    return torch.randint(-8, 9, shape, generator=torch.Generator().manual_seed(seed)) / 4


# No two elements are equal, so that the positions of maxima are unique.
IMAGE = torch.randperm(2 * 3 * 7 * 8, generator=torch.Generator().manual_seed(0)).view(2, 3, 7, 8) / 4.0
VOLUME = (
    torch.randperm(2 * 2 * 5 * 6 * 7, generator=torch.Generator().manual_seed(1)).view(2, 2, 5, 6, 7) / 4.0
)
LINE, SMALL = _quarters(2, 4, 9), _quarters(2, 4, 5, 6)
INTS = (_quarters(2, 3, 4, 5) * 4).long()
BIAS = _quarters(4, seed=2)
HUGE = INTS * (2**40 + 1)
NANS = torch.full((3, 3), math.nan)
QUANTIZED = torch.randint(-128, 128, (4, 6), generator=torch.Generator().manual_seed(6), dtype=torch.int8)
SCALES, ZEROS = torch.tensor([0.5, 1e-6, 0.25, 2.0]), torch.tensor([3, -2, 0, 1])
GRID = _quarters(2, 3, 5, 2) * 0.7
_ALPHAS: list[tuple[Any, ...]] = [
    (INTS, INTS.flip(0), {"alpha": 2**24 + 1}),
    (INTS.int(), INTS, {"alpha": -3}),
]
_SCALARS: list[tuple[Any, ...]] = [(INTS, 5, 2**24 + 1), (INTS.int(), -7, 3)]

_NEAREST_2D: list[tuple[Any, ...]] = [(IMAGE, size, None) for size in ([14, 24], [5, 11], [3, 4])]
_NEAREST_3D: list[tuple[Any, ...]] = [
    (VOLUME, [5, 12, 3], None),
    (INTS[None].float(), None, [2.0, 0.7, 1.5]),
]
_SMOOTH = [(SMALL, size, corners, None) for size in ([9, 7], [3, 12], [1, 6]) for corners in (False, True)]
_SHRUNK = [(_quarters(1, 2, 13, 17), size, False, None) for size in ([5, 3], [13, 6], [30, 2])]
_VOLUMES = [(_quarters(1, 2, 3, 4, 5), None, corners, [1.7, 0.6, 2.0]) for corners in (False, True)]


def _mirrored(rank: int) -> list[tuple[Any, ...]]:
    return [
        (_quarters(2, 3, *(5, 6, 7)[:rank]), amounts[: 2 * rank])
        for amounts in ([1, 2, 3, 0, 2, 1], [-1, 2] * 3)
    ]


def _transposed(
    x: torch.Tensor, outputs: int, taps: list[int], *geometry: Any, bias: Any = None
) -> tuple[Any, ...]:
    stride, pad, dilation, output_padding, groups = geometry
    weight = _quarters(x.shape[1], outputs // groups, *taps, seed=3)
    return x, weight, bias, stride, pad, dilation, True, output_padding, groups


_ARRANGED: dict[OpOverload, list[tuple[Any, ...]]] = {
    aten.diagonal.default: [*((IMAGE, offset, 1, -1) for offset in (0, 2, -1)), (SMALL[0, 0],)],
    aten.unfold.default: [(SMALL, 2, 2, 1), (SMALL, 1, 1, 1), (HUGE, -1, 2, 2), (LINE, -1, 3, 3)],
    aten.tril.default: [(IMAGE, 1), (INTS, -1), (INTS > 0,)],
    aten.roll.default: [(IMAGE, [9]), (INTS, [1, -2], [-1, 0])],
    aten.repeat.default: [(SMALL, [2, 1, 3, 1]), (INTS[0], [2, 1, 1, 3])],
    aten.pixel_shuffle.default: [(_quarters(4, 5, 6), 2), (_quarters(2, 2, 9, 2, 2), 3)],
    aten.full.default: [([2, 3], 2**40 + 1), ([4], True, {"dtype": torch.bool}), ([], 2.5)],
    aten.full_like.default: [(SMALL, 7), (SMALL, 7, {"dtype": torch.int32})],
    aten._to_copy.default: [(each, {"dtype": torch.int8}) for each in (INTS * 100, HUGE, HUGE.int())],
    aten.addmm.default: [
        (NANS, NANS[:, :0].new_ones(3, 3), NANS.new_ones(3, 3), {"beta": 0, "alpha": 2}),
        (SMALL[0, 0, 0, :3], NANS, NANS, {"alpha": 0, "beta": 3}),
        (NANS, NANS, NANS, {"alpha": 0, "beta": 0}),
        (BIAS, SMALL[0, 0, :, :3], SMALL[0, 0, :3, :4], {"alpha": 2, "beta": -3}),
    ],
    aten.linear.default: [
        (SMALL, _quarters(4, 6, seed=1), BIAS),
        (LINE[0], _quarters(4, 9, seed=1)),
        (LINE, _quarters(9, seed=1)),
    ],
    aten.grid_sampler_2d.default: [
        (SMALL, GRID, mode, padding_mode, corners)
        for mode in range(3)
        for padding_mode in range(3)
        for corners in (False, True)
    ],
    aten.add.Tensor: _ALPHAS,
    aten.sub.Tensor: _ALPHAS,
    aten.add.Scalar: _SCALARS,
    aten.sub.Scalar: _SCALARS,
    aten.rsub.Scalar: _SCALARS,
    DEQUANTIZE_BLOCKS: [
        (QUANTIZED, [1, 6], SCALES, ZEROS, torch.int8),
        (QUANTIZED.T.contiguous(), [6, 1], SCALES, None, torch.int8),
        (QUANTIZED, [1, 3], SCALES.view(2, 2).repeat(2, 1), ZEROS.view(2, 2).repeat(2, 1), torch.int8),
        (QUANTIZED, [2, 3], SCALES.view(2, 2), ZEROS.view(2, 2), torch.int8),
    ],
}

# operator -> calls of it: positional arguments, and keyword arguments if the last one is a dict
CASES: dict[OpOverload, list[tuple[Any, ...]]] = {
    **_ARRANGED,
    aten.convolution.default: [
        _transposed(SMALL, 4, [3, 2], [1, 1], [1, 0], [2, 1], [0, 0], 1, bias=BIAS),
        _transposed(SMALL, 4, [4, 4], [2, 2], [1, 1], [1, 1], [1, 0], 2, bias=BIAS),
        _transposed(SMALL, 8, [2, 3], [3, 2], [0, 2], [2, 3], [2, 1], 4),
        _transposed(LINE, 4, [5], [3], [2], [1], [0], 1, bias=BIAS),
        (LINE, _quarters(4, 1, 3, seed=3), BIAS, [2], [1], [1], False, [0], 4),
        (_quarters(1, 1, 700), _quarters(4, 1, 300, seed=3) / 4, BIAS, [7], [5], [1], False, [0], 1),
    ],
    aten.col2im.default: [
        (_quarters(2, 12, 24), [9, 10], [3, 2], [2, 1], [1, 1], [2, 2]),
        (_quarters(12, 12), [6, 8], [2, 2], [1, 1], [0, 0], [2, 2]),
    ],
    aten.constant_pad_nd.default: [
        (torch.tensor([True, False]), [1, 2], 0.001),
        (IMAGE, [1, 2, 3, 4, 5, 6, 1, 1], 1.5),
        (IMAGE, [0, 0, 0, 0, 0, 0, 1, 2]),
        (IMAGE, [-1, 2, 0, -3]),
        (INTS, [1, 0, 0, 0, -1, 2], -3),
        (INTS > 0, [1, 2, 0, 1], True),
    ],
    aten.reflection_pad1d.default: _mirrored(1),
    aten.reflection_pad2d.default: _mirrored(2),
    aten.reflection_pad3d.default: _mirrored(3),
    aten.replication_pad1d.default: _mirrored(1),
    aten.replication_pad2d.default: _mirrored(2),
    aten.replication_pad3d.default: _mirrored(3),
    aten.avg_pool2d.default: [
        (SMALL[0], [2, 2]),
        (SMALL, [3, 3], [2, 2], [1, 1], True),
        (SMALL, [3, 2], [2, 1], [1, 1], False, False),
        (SMALL, [3, 2], [2, 2], [1, 0], False, True, 5),
    ],
    aten.max_pool2d_with_indices.default: [(IMAGE[0], [3, 2], [2, 2], [1, 1], [1, 2], True)],
    aten.max_pool3d_with_indices.default: [
        (VOLUME, [2, 3, 2], [2, 2, 1], [1, 1, 0], [1, 1, 2], True),
        (VOLUME[0], [2, 2, 2], [1, 2, 2]),
    ],
    aten._adaptive_avg_pool2d.default: [(SMALL, size) for size in ([5, 3], [7, 4], [2, 11], [1, 1])],
    aten.adaptive_max_pool2d.default: [
        *((IMAGE, size) for size in ([7, 4], [3, 5], [9, 2])),
        (IMAGE[0], [3, 5]),
    ],
    aten.upsample_nearest2d.vec: _NEAREST_2D,
    aten._upsample_nearest_exact2d.vec: _NEAREST_2D,
    aten.upsample_nearest3d.vec: _NEAREST_3D,
    aten._upsample_nearest_exact3d.vec: _NEAREST_3D,
    aten.upsample_bilinear2d.vec: _SMOOTH,
    aten.upsample_bicubic2d.vec: _SMOOTH,
    aten.upsample_trilinear3d.vec: _VOLUMES,
    aten._upsample_bilinear2d_aa.default: [(x, size, corners) for x, size, corners, _ in _SHRUNK],
    aten._upsample_bicubic2d_aa.vec: _SHRUNK,
}

# Operator -> why it is not compared in float16.
_NO_HALF = {
    aten.addmm.default: "eager mode's float16 keeps the NaN of an operand whose factor is zero",
    aten.grid_sampler_2d.default: "eager mode rounds positions to float16, so that others are nearest",
    aten._upsample_bilinear2d_aa.default: "eager mode has no float16",
    aten._upsample_bicubic2d_aa.vec: "eager mode has no float16",
}


def test_every_rewrite_has_cases() -> None:
    assert {*CASES, aten.empty.memory_format} == set(REWRITES)


def test_uninitialized_memory_is_zero() -> None:
    operator = aten.empty.memory_format
    program, _, _ = call_program(operator, ([2, 3],), preserve=[operator])
    (node,) = program.graph.find_nodes(op="call_function", target=operator)
    (rewrite,) = REWRITES[operator]
    replace(node, rewrite(Builder(program).at(node), node))
    program.graph.eliminate_dead_code()
    assert_computes(program, torch.zeros(2, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("operator", CASES, ids=str)
def test_replacements_have_the_same_results(operator: OpOverload, dtype: torch.dtype) -> None:
    if dtype == torch.float16 and operator in _NO_HALF:
        pytest.skip(_NO_HALF[operator])
    assert_rewrites(REWRITES[operator], CASES[operator], dtype, 3e-3 if dtype == torch.float16 else 1e-5)


# Five dimensions, of which the last two have 12 elements.
MANY = _quarters(2, 2, 2, 3, 4)
_MOVES: list[tuple[Rewrite, tuple[Any, ...]]] = [
    (gather.FLIP_OF_MIDDLE, (MANY, [0, -2])),
    (slicing.SPLIT_BY_SLICES, (MANY, [1, 3], -1)),
    *((slicing.STRIDED_SLICE_BY_GROUPS, (MANY, 4, start, 4, step)) for start in (0, 1) for step in (2, 3)),
    (slicing.STRIDED_SLICE_BY_GROUPS, (LINE, 1, 0, 9, 4)),
    *((slicing.UNFOLD_BY_SLICES, (LINE, -1, size, step)) for size, step in ((4, 2), (2, 3), (7, 1))),
    *(
        (rewrite, call)
        for rewrite, call in zip(
            (*ranks.ELEMENTWISE, *ranks.MOVES),
            (
                (MANY, {"dtype": torch.float64}),
                ([2, 2, 2, 3, 4], 1.5, {"dtype": torch.float32}),
                (MANY, [1, 0, 0, 2]),
                ([MANY, MANY[:, :, :1]], 2),
                (MANY, [1, 2], 3),
            ),
            strict=True,
        )
    ),
    (ranks.MOVES[0], (MANY, [1, 0, 0, 2, 0, 0, 1, 1, 2, 2])),
]


@pytest.mark.parametrize("rewrite, call", _MOVES, ids=lambda each: str(getattr(each, "target", "")))
def test_alternatives_have_the_same_results(rewrite: Rewrite, call: tuple[Any, ...]) -> None:
    assert_rewrites([rewrite], [call], torch.float32, 0.0)
