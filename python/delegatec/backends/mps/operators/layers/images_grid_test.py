# SPDX-License-Identifier: Apache-2.0
"""Convolutions, pools, padding, resizing and overlapping windows: their operations, sizes and limits."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.common.testing import IMAGE, Function, floats, ints
from delegatec.backends.mps.backend import MPS
from delegatec.backends.mps.blob import read_blob
from delegatec.backends.mps.testing import operations
from delegatec.backends.mps.testing.grid import PRECISIONS, rejected, run_case

INTEGERS = MPS.preserved_operators()
VOLUME = floats(2, 3, 6, 7, 8)
PICTURE = floats(2, 3, 7, 8)
SMALL = floats(2, 3, 7, 5)
MAXIMA = "MaxPool2DWithIndices Isnan Where MaxPool2DWithIndices Gt Where"


@pytest.mark.parametrize(
    ("module", "shape", "expected"),
    [
        (nn.ConvTranspose2d(3, 4, 2, 2), (1, 3, 5, 4), "Conv2D PixelShuffle View Add"),
        (nn.ConvTranspose2d(3, 4, 2, 2, bias=False), (1, 3, 5, 4), "Conv2D PixelShuffle"),
        (nn.ConvTranspose2d(3, 4, 4, 2, 1, bias=False), (1, 3, 5, 4), "Conv2D PixelShuffle Slice Slice"),
        (nn.ConvTranspose2d(3, 4, 3, 1, 1), (1, 3, 5, 4), "Conv2D"),
        (nn.ConvTranspose2d(4, 4, 3, 1, 1, groups=4), (1, 4, 5, 4), "DepthwiseConv2D"),
        (nn.ConvTranspose1d(3, 4, 4, 2, 1, bias=False), (1, 3, 5), "Conv2D View Permute View Slice"),
        (nn.Conv1d(4, 4, 3, groups=4), (1, 4, 9), "View View DepthwiseConv2D View"),
        (nn.Conv1d(4, 8, 3, groups=4), (1, 4, 9), "Conv2D"),
        (nn.Conv2d(4, 4, 3, groups=4), (1, 4, 9, 9), "DepthwiseConv2D"),
        (nn.Conv2d(4, 8, 3, groups=4), (1, 4, 9, 9), "Conv2D"),
        (nn.Conv1d(1, 2, 400, 10), (1, 1, 600), "Slice Slice Conv2D Slice Slice Conv2D Add"),
    ],
)
def test_operations_of_convolutions(module: nn.Module, shape: tuple[int, ...], expected: str) -> None:
    run_case(lambda x: module(x), (floats(*shape),), expected, atol=1e-5)


def test_transposed_weight_is_stored_once() -> None:
    """The blob of a transposed convolution contains its rearranged weight without added zeros."""
    module = nn.ConvTranspose2d(8, 6, 4, 2, 1, bias=False)
    compiled = run_case(lambda x: module(x), (floats(1, 8, 5, 4),))
    blob = read_blob(memoryview(compiled.blobs()[0]))
    assert len(blob.constants) == module.weight.numel() * 4


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_long_kernel(batch: int, transposed: bool) -> None:
    x = floats(batch, 2, 1100) if not transposed else floats(batch, 2, 300)
    weight = floats(2, 2, 300, seed=1) * 0.1
    function = F.conv_transpose1d if transposed else F.conv1d
    compiled = run_case(lambda x: function(x, weight, padding=7), (x,), rtol=1e-4, atol=1e-4)
    graph = read_blob(memoryview(compiled.blobs()[0])).graph
    names = operations(compiled.blobs()[0])
    assert names.count("Conv2D") == {1: 2, 3: 4}[batch]
    assert all(
        graph.mpsValues[node.mpsnodeUnion.input2Id].dims[2] * batch < 256
        for node, name in zip(graph.mpsNodes, names, strict=True)
        if name == "Conv2D"
    )


def test_many_channels_are_rejected() -> None:
    x, weight = floats(1, 1, 4), floats(2**16 + 1, 1, 1)
    ((_, rule, message),) = rejected(F.conv1d, (x, weight))
    assert (rule, message.split(".")[0]) == ("size", "65537 output channels")
    x, weight = floats(1, 1, 2, 2), floats(1, 2**14 + 1, 2, 2)
    ((_, rule, _),) = rejected(lambda x, w: F.conv_transpose2d(x, w, stride=2), (x, weight))
    assert rule == "size"


POOLS: dict[str, tuple[Function, torch.Tensor, str]] = {
    "maximum": (lambda x: F.max_pool2d(x, 3, stride=2, padding=1, dilation=2), IMAGE, MAXIMA),
    "maximum, indices": (
        lambda x: F.max_pool2d(x, 3, 2, padding=1, return_indices=True),
        IMAGE,
        f"{MAXIMA} Sub Cast Where Cast",
    ),
    "windows of one size": (lambda x: F.adaptive_avg_pool2d(x, (3, 4)), IMAGE, "AvgPool2D"),
    "windows of two sizes": (
        lambda x: F.adaptive_avg_pool2d(x, (7, 3)),
        SMALL,
        "ConstantPadND IndexSelect AvgPool2D Mul",
    ),
    "windows of two sizes, maximum": (
        lambda x: F.adaptive_max_pool2d(x, (7, 3)),
        SMALL,
        "IndexSelect MaxPool2DWithIndices Isnan Where MaxPool2DWithIndices Gt Where",
    ),
    "one dimension": (lambda x: F.avg_pool1d(x, 3, 2, 1, True, False), IMAGE[0], ""),
    "one dimension, maximum": (lambda x: F.max_pool1d(x, 3, 2, 1, 2, True), IMAGE[0], ""),
    "three dimensions": (lambda x: F.avg_pool3d(x.float(), 3, 2, 1, True, False), VOLUME, ""),
    "three dimensions, divisor": (
        lambda x: F.avg_pool3d(x.float(), (2, 3, 1), 2, 0, True, True, 3),
        VOLUME,
        "",
    ),
    "adaptive, one dimension": (lambda x: F.adaptive_avg_pool1d(x, 4), floats(2, 6, 9), ""),
    "adaptive maximum, one dimension": (lambda x: F.adaptive_max_pool1d(x, 4), floats(2, 6, 9), ""),
    "adaptive, three dimensions": (lambda x: F.adaptive_avg_pool3d(x, (3, 5, 2)), floats(2, 3, 4, 6, 7), ""),
    "area": (lambda x: F.interpolate(x, (5, 11), mode="area"), IMAGE, ""),
    "divisor": (lambda x: F.avg_pool2d(x, 3, 2, divisor_override=5), IMAGE, "AvgPool2D"),
    "beyond padding that counts": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
        floats(1, 2, 6, 6),
        "AvgPool2D Mul",
    ),
    "without a batch": (lambda x: F.avg_pool2d(x, 2), IMAGE[0], "View AvgPool2D View"),
    "norm": (lambda x: F.lp_pool2d(x.abs() + 0.1, 2, 3, 2), IMAGE, ""),
}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", POOLS)
def test_pool(name: str, precision: str) -> None:
    function, x, expected = POOLS[name]
    expected = expected if precision == "fp32" else ""
    special = "indices" not in name  # those of equal elements differ
    run_case(function, (x,), expected, precision, preserve=INTEGERS, special=special)


def test_infinity_stays_in_its_windows() -> None:
    x = floats(1, 1, 5, 5)
    x[0, 0, 4, 4] = math.inf
    run_case(lambda x: F.adaptive_avg_pool2d(x, (3, 3)), (x,), preserve=INTEGERS)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_last_nan_of_a_window_is_its_maximum(precision: str) -> None:
    x = IMAGE.clone()
    x.view(-1)[::7] = math.nan
    run_case(
        lambda x: F.max_pool2d(x, 3, 2, padding=1, dilation=1, return_indices=True),
        (x,),
        precision=precision,
        preserve=INTEGERS,
    )


def test_pools_of_integers_are_rejected() -> None:
    ((_, rule, message),) = rejected(lambda x: F.max_pool2d(x, 2), (ints(1, 1, 4, 4),))
    assert (rule, message.split(".")[0]) == ("dtype", "operand of dtype int64")


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("amounts", [(1, 2, 3, 2, 1, 0), (-1, 2, 0, -2, 1, 1)], ids=str)
def test_padding_of_volumes(mode: str, amounts: tuple[int, ...]) -> None:
    run_case(lambda x: F.pad(x, amounts, mode=mode) * 2, (VOLUME,))


def test_operations_of_padding() -> None:
    run_case(lambda x: F.pad(x, (1, 0, 2, 3)) * 2, (VOLUME,), "ConstantPadND Mul")
    run_case(lambda x: F.pad(x, (1, 0, -2, 3)) * 2, (VOLUME,), "Slice ConstantPadND Mul")
    run_case(
        lambda x: F.pad(x, (1, 1, 2, 2), mode="reflect") * 2, (VOLUME[0],), "IndexSelect IndexSelect Mul"
    )


def test_infinite_padding() -> None:
    run_case(lambda x: F.pad(x, (1, 2), value=float("-inf")) * 2, (VOLUME,), precision="fp16")


def test_large_integers_are_rejected() -> None:
    left = rejected(lambda x: F.pad(x, (1, 2), value=2**24 + 1) + 1, (torch.ones(3, dtype=torch.int64),))
    assert [(operator, rule) for operator, rule, _ in left] == [("aten.constant_pad_nd.default", "argument")]


def test_circular_padding_is_a_concatenation() -> None:
    run_case(lambda x: F.pad(x, (1, 2), mode="circular") * 2, (VOLUME[0, 0],), "Slice Slice Cat Mul")


def resized(precision: str, expected: str = "", x: torch.Tensor = PICTURE, **options: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, **options) * 2

    run_case(
        function,
        (x,),
        expected,
        precision,
        preserve=INTEGERS,
        # eager mode does not round weights to float16, and has no antialiasing there
        rtol=1e-5 if precision == "fp32" else 8e-3,
        reference=lambda x: function(x.float()),
    )


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_resized(mode: str, precision: str) -> None:
    for size in ((5, 11), (14, 24)):
        resized(precision, size=size, mode=mode)
    if "bi" in mode:
        resized(precision, size=(5, 11), mode=mode, align_corners=True)
        resized(precision, scale_factor=0.3, mode=mode, antialias=True)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"scale_factor": 2}, "View Expand View Mul"),
        ({"size": (14, 4)}, "Slice View Expand View Mul"),
        ({"size": (3, 4)}, "Slice Slice Mul"),
        ({"size": (7, 5)}, "IndexSelect Mul"),
        ({"size": (7, 8), "mode": "bilinear"}, "Mul"),
        ({"size": (14, 8), "mode": "bilinear"}, "IndexSelect Mul IndexSelect Mul Add Mul"),
    ],
)
def test_operations_of_resizing(options: dict[str, Any], expected: str) -> None:
    resized("fp32", expected, **options)


@pytest.mark.parametrize("antialias", [False, True])
def test_infinity_stays_where_it_is(antialias: bool) -> None:
    x = floats(1, 1, 9, 9)
    x[0, 0, 8, 8] = math.inf
    resized("fp32", x=x, size=(4, 4), mode="bilinear", antialias=antialias)


@pytest.mark.parametrize(("mode", "antialias"), [("bilinear", False), ("bilinear", True), ("bicubic", False)])
def test_special_values(mode: str, antialias: bool) -> None:
    for size in ((5, 11), (1, 1), (3, 5)):

        def function(x: torch.Tensor, size: Any = size) -> torch.Tensor:
            return F.interpolate(x, size, mode=mode, antialias=antialias)

        run_case(function, (PICTURE,), preserve=INTEGERS, special=1)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_windows(precision: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.unfold(x, (2, 3), (2, 1), (1, 2), (1, 2)) * 2

    run_case(function, (PICTURE,), precision=precision, preserve=INTEGERS)


def test_patches_that_do_not_overlap_are_only_moved() -> None:
    windows = floats(1, 32, 64)
    compiled = run_case(lambda w: F.fold(w * 2, (16, 16), 2, stride=2), (windows,), preserve=INTEGERS)
    assert set(operations(compiled.blobs()[0])) == {"Mul", "View", "Permute"}


def test_patches_that_overlap() -> None:
    """One addition per row and column of a window, except the first ones, and no table of indices."""
    windows = floats(1, 8 * 9, 256)
    compiled = run_case(lambda w: F.fold(w, (16, 16), 3, padding=1), (windows,), preserve=INTEGERS)
    assert operations(compiled.blobs()[0]).count("Add") == 4
    assert len(read_blob(memoryview(compiled.blobs()[0])).constants) == 0
