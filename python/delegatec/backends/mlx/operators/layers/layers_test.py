# SPDX-License-Identifier: Apache-2.0
"""Products, convolutions, pools, normalization and attention: their nodes, and layouts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.common.testing import Call, Function, eager, floats, ints
from delegatec.backends.mlx.testing import compile_module, operations
from delegatec.backends.mlx.testing.grid import PRECISIONS, rejected, run_case

_IMAGE: Final = floats(2, 6, 9, 8)
_VOLUME: Final = floats(2, 3, 5, 6, 7)


def _called(module: nn.Module) -> Function:
    module = module.eval()
    return lambda x: module(x)


LAYERS: Final[dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], str]]] = {
    "linear": (lambda: nn.Linear(4, 3), (2, 5, 4), "Addmm"),
    "linear without bias": (lambda: nn.Linear(4, 3, bias=False), (5, 4), "Addmm"),
    "layer norm": (lambda: nn.LayerNorm(8), (2, 3, 8), "LayerNorm"),
    "layer norm without weights": (lambda: nn.LayerNorm(8, elementwise_affine=False), (2, 8), "LayerNorm"),
    "layer norm of two dimensions": (lambda: nn.LayerNorm([3, 8]), (2, 3, 8), "Reshape LayerNorm Reshape"),
    "rms norm": (lambda: nn.RMSNorm(8), (2, 3, 8), "RmsNorm"),
    "rms norm of three dimensions": (
        lambda: nn.RMSNorm([3, 4, 8], eps=1e-3),
        (2, 5, 3, 4, 8),
        "Reshape RmsNorm Reshape",
    ),
    "rms norm of two dimensions without weights": (
        lambda: nn.RMSNorm([3, 8], elementwise_affine=False),
        (2, 3, 8),
        "Reshape RmsNorm Reshape",
    ),
    "embedding": (lambda: nn.Embedding(7, 3), (0,), "Take"),
    "convolution": (lambda: nn.Conv2d(6, 4, 3), (2, 6, 9, 8), "Transpose Conv2d Add Transpose"),
    "padding": (lambda: nn.Conv2d(6, 4, 3, 2, 1), (2, 6, 9, 8), "Transpose Conv2d Add Transpose"),
    "depthwise": (lambda: nn.Conv2d(6, 6, 3, groups=6), (2, 6, 9, 8), "Transpose Conv2d Add Transpose"),
    "in three dimensions": (
        lambda: nn.Conv3d(2, 4, 3, padding=1, bias=False),
        (1, 2, 4, 5, 6),
        "Transpose Conv3d Transpose",
    ),
    "one dimension": (
        lambda: nn.Conv1d(4, 6, 3, 2, padding=1, groups=2),
        (2, 4, 10),
        "Transpose Conv1d Add Transpose",
    ),
    "groups": (lambda: nn.Conv2d(6, 4, 3, 2, groups=2), (2, 6, 10, 8), "Transpose Conv2d Add Transpose"),
    "dilated windows": (
        lambda: nn.MaxPool2d(3, 2, 1, 2),
        (2, 6, 9, 8),
        "Pad AsStrided Max",
    ),
    "transposed": (
        lambda: nn.ConvTranspose2d(6, 4, 3, 2, 1, 1, bias=False),
        (2, 6, 5, 4),
        "Transpose ConvTranspose2d Transpose",
    ),
    "transposed, one dimension": (
        lambda: nn.ConvTranspose1d(4, 6, 4, 2, 1, 1),
        (2, 4, 9),
        "Transpose ConvTranspose1d Add Transpose",
    ),
    "transposed, in three dimensions, in groups": (
        lambda: nn.ConvTranspose3d(6, 9, 3, 2, 1, output_padding=1, groups=3),
        (1, 6, 3, 4, 4),
        "",
    ),
    "maximum of windows": (lambda: nn.MaxPool2d(2), (2, 6, 8, 8), "Reshape Max"),
    "overlapping windows": (
        lambda: nn.MaxPool2d(3, 2, 1),
        (2, 6, 9, 8),
        "Pad AsStrided Max",
    ),
    "average of windows": (lambda: nn.AvgPool2d(3, 2), (2, 6, 9, 8), "AsStrided Mean"),
    "maximum of volumes": (lambda: nn.MaxPool3d(3, 2, 1), (1, 2, 6, 7, 8), "Pad AsStrided Max"),
    "average of volumes": (lambda: nn.AvgPool3d(2), (1, 2, 4, 6, 8), "Reshape Mean"),
    "average of all": (lambda: nn.AvgPool3d((4, 6, 8)), (1, 2, 4, 6, 8), "Mean"),
    "batch norm": (lambda: nn.BatchNorm2d(6), (2, 6, 9, 8), "Multiply Add"),
}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", LAYERS)
def test_nodes(name: str, precision: str) -> None:
    make, shape, expected = LAYERS[name]
    torch.manual_seed(0)
    layer = _called(make())
    x = ints(4, high=7) if name == "embedding" else floats(*shape)
    if precision == "fp32":
        run_case(layer, (x,), expected, atol=1e-5)
    else:
        run_case(layer, (x,), "", precision, rtol=1e-2, atol=1e-2, reference=lambda x: layer(_wide(x)))


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.is_floating_point() else x


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_models_of_half_precision(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.SiLU(), nn.Flatten(2), nn.LayerNorm(36), nn.Linear(36, 5))
    run_case(_called(layers.to(dtype)), (floats(2, 3, 8, 8).to(dtype),), rtol=3e-2, atol=3e-2)


def test_a_network_is_transposed_once() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(
        *(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU6(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 1)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)),
    ).eval()
    compiled = compile_module(network, (floats(1, 3, 16, 16),))
    assert operations(compiled.blobs()[0]).count("Transpose") == 1
    x = floats(1, 3, 16, 16, seed=1)
    torch.testing.assert_close(compiled(x)[0], next(eager(network, (x,))), rtol=1e-5, atol=1e-5)


CONVOLUTIONS: Final[dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]]] = {
    "one dimension": (lambda: nn.Conv1d(4, 6, 3, padding=1, groups=2), (2, 4, 9)),
    "groups": (lambda: nn.Conv2d(6, 4, 3, groups=2, dilation=2), (2, 6, 9, 8)),
    "same padding": (lambda: nn.Conv2d(6, 4, 4, padding="same"), (2, 6, 9, 8)),
    "a part of the image": (lambda: nn.Conv2d(6, 4, 3, 4), (2, 6, 9, 8)),
    "transposed, uneven": (lambda: nn.ConvTranspose2d(6, 4, 3, 3, 2, 2), (2, 6, 5, 4)),
    "transposed, one dimension": (lambda: nn.ConvTranspose1d(4, 6, 4, 2, 1), (2, 4, 9)),
    "transposed, in groups": (lambda: nn.ConvTranspose2d(6, 4, 3, 2, groups=2), (2, 6, 5, 4)),
    "transposed, with dilation": (lambda: nn.ConvTranspose1d(4, 6, 3, 2, 1, dilation=2), (2, 4, 7)),
    "transposed, in three dimensions": (lambda: nn.ConvTranspose3d(4, 2, 3, 2, 1, 1), (1, 4, 3, 4, 2)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    make, shape = CONVOLUTIONS[name]
    torch.manual_seed(0)
    run_case(_called(make()), (floats(*shape),), atol=1e-5)


POOLS: Final[dict[str, tuple[Function, torch.Tensor]]] = {
    "counted padding": (lambda x: F.avg_pool2d(x, 3, 2, 1), _IMAGE),
    "padding that is not counted": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), _IMAGE),
    "beyond the border": (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), _IMAGE),
    "dilation": (lambda x: F.max_pool2d(x, 3, 2, 1, 2), _IMAGE),
    "windows of two sizes": (lambda x: F.adaptive_avg_pool2d(x, (7, 3)), _IMAGE),
    "one dimension": (lambda x: F.max_pool1d(x, 3, 2, 1), _IMAGE[0]),
    "negative images": (lambda x: F.max_pool2d(x - 5, 3, 2, 1), _IMAGE),
    "average of one dimension": (lambda x: F.avg_pool1d(x, 3, 2, 1, count_include_pad=False), _IMAGE[0]),
    "padding of volumes": (lambda x: F.avg_pool3d(x, 3, 2, 1), _VOLUME),
    "padding of volumes that is not counted": (
        lambda x: F.avg_pool3d(x, (3, 2, 3), (2, 2, 1), (1, 0, 1), True, False),
        _VOLUME,
    ),
    "divisor": (lambda x: F.avg_pool3d(x, 2, 1, 1, divisor_override=3), _VOLUME),
    "volumes beyond the border": (lambda x: F.max_pool3d(x, (2, 3, 3), 2, 1, ceil_mode=True), _VOLUME),
    "dilation in volumes": (lambda x: F.max_pool3d(x, 2, (1, 2, 2), 1, (1, 2, 3)), _VOLUME),
    "one volume": (lambda x: F.max_pool3d(x, 2), _VOLUME[0]),
    "averages of volumes of two sizes": (lambda x: F.adaptive_avg_pool3d(x, (2, 3, 7)), _VOLUME),
    "maxima of volumes of two sizes": (lambda x: F.adaptive_max_pool3d(x, (3, 6, 1)), _VOLUME),
}


@pytest.mark.parametrize("name", POOLS)
def test_pools(name: str) -> None:
    function, x = POOLS[name]
    run_case(function, (x,), special=1)


POSITIONS: Final[dict[str, Function]] = {
    "windows side by side": lambda x: F.max_pool2d(x, 2, return_indices=True),
    "padding": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
    "dilation": lambda x: F.max_pool2d(x, 2, 1, 0, (2, 3), ceil_mode=True, return_indices=True),
    "one dimension": lambda x: F.max_pool1d(x[0], 3, 2, 1, return_indices=True),
    "volumes": lambda x: F.max_pool3d(x, (3, 2, 2), 2, (1, 0, 0), return_indices=True),
    "equal elements": lambda x: F.max_pool2d((x * 2).round(), 3, 1, 1, return_indices=True),
    "nothing but infinity": lambda x: F.max_pool2d(
        torch.where(x < 9, -math.inf, x), 3, 1, 1, return_indices=True
    ),
    "windows of two sizes": lambda x: F.adaptive_max_pool2d(x, (4, 3), return_indices=True),
    "the positions alone": lambda x: F.max_pool2d(x, 3, return_indices=True)[1],
}


@pytest.mark.parametrize("name", POSITIONS)
def test_positions_of_maxima(name: str) -> None:
    run_case(POSITIONS[name], (_IMAGE,), special=1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.int8, torch.int32])
def test_positions_of_maxima_of_other_dtypes(dtype: torch.dtype) -> None:
    x = (_IMAGE * 3).to(dtype)
    padding = 0 if dtype == torch.int32 else 1
    run_case(lambda x: F.max_pool2d(x, 3, 2, padding, return_indices=True), (x,))


def test_unpooling() -> None:
    """A batch of any size; positions are those of the image."""

    def function(x: torch.Tensor) -> torch.Tensor:
        values, positions = F.max_pool2d(x, 2, return_indices=True)
        return F.max_unpool2d(values * 2, positions, 2)

    shapes = (({0: torch.export.Dim("batch", min=1, max=5)},),)
    others = [(floats(size, 6, 8, 10, seed=size),) for size in (1, 5)]
    run_case(function, (floats(2, 6, 8, 10),), dynamic_shapes=shapes, others=others)


def test_images_of_dynamic_sizes() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 1)).eval()
    half = torch.export.Dim("half", min=2, max=8)
    shapes = (({0: torch.export.Dim("batch", min=1, max=4), 2: 8 * half},),)
    others = [(floats(1, 3, 16, 12),), (floats(4, 3, 64, 12),)]
    run_case(lambda x: network(x), (floats(2, 3, 24, 12),), dynamic_shapes=shapes, others=others, atol=1e-5)


@pytest.mark.parametrize("function", [lambda x: F.avg_pool2d(x, 2), lambda x: F.max_pool2d(x, 2)])
def test_windows_that_divide_the_example_only(function: Function) -> None:
    shapes = (({2: torch.export.Dim("height", min=4, max=32)},),)
    others = [(floats(2, 3, height, 6),) for height in (4, 9, 32)]
    run_case(function, (floats(2, 3, 8, 6),), dynamic_shapes=shapes, others=others)


# ---- attention -------------------------------------------------------------------------------------------

_Q: Final = floats(2, 4, 5, 8)
_K: Final = floats(2, 4, 7, 8, seed=1)
_V: Final = floats(2, 4, 7, 8, seed=2)
_MASK: Final = floats(2, 1, 5, 7, seed=3) > -0.3


def _attention(**options: Any) -> Function:
    return lambda *operands: F.scaled_dot_product_attention(*operands, **options)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_attention(precision: str) -> None:
    error = 1e-2 if precision == "fp16" else 2e-6
    casts = "AsType AsType AsType " if precision == "fp16" else ""
    run_case(_attention(), (_Q, _K, _V), f"{casts}Sdpa", precision, rtol=error, atol=error)
    run_case(_attention(scale=0.3), (_Q, _K, _V), f"{casts}Sdpa", precision, rtol=error, atol=error)
    run_case(_attention(is_causal=True), (_K, _K, _V), "", precision, rtol=error, atol=error)


def test_attention_of_groups() -> None:
    run_case(_attention(enable_gqa=True), (_Q, _K[:, :2], _V[:, :2]), "Sdpa")


def test_fully_masked_rows_are_zero() -> None:
    """Once for all layers with a mask."""
    mask = _MASK.clone()
    mask[1, 0, 2] = False

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        once = F.scaled_dot_product_attention(q, k, v, mask)
        return F.scaled_dot_product_attention(once, k, v, mask)

    run_case(function, (_Q, _K, _V, mask), "Any Sdpa Where Sdpa Where")
    bias = torch.where(mask, 0.0, -math.inf)
    run_case(_attention(), (_Q, _K, _V, bias), "NotEqual Any Sdpa Where")


def test_finite_masks_need_no_guard() -> None:
    run_case(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, torch.where(m, 0.0, -1e9)),
        (_Q, _K, _V, _MASK),
        "Where Sdpa",
    )
    known = torch.ones(5, 7, dtype=torch.bool).tril(2)
    run_case(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, known), (_Q, _K, _V), "Sdpa")


def test_causal_masks_of_other_shapes() -> None:
    """The runtime aligns the last rows, ATen the first ones."""
    run_case(_attention(is_causal=True), (_Q, _K, _V), "Slice Slice Sdpa")
    run_case(_attention(is_causal=True), (_Q[:, :, :1], _K, _V), "Slice Slice Sdpa")
    run_case(_attention(is_causal=True), (_K, _Q, _Q))


def test_scales_of_dynamic_depths() -> None:
    """1 / sqrt(depth) is a number of the node: that of the example would hold for no other depth."""
    depth = (({3: torch.export.Dim("depth", min=1, max=9)},),)
    compiled = compile_module(
        Call(lambda x: F.scaled_dot_product_attention(x, x, x)), (_Q,), dynamic_shapes=depth
    )
    assert all("Sdpa" not in operations(blob) for blob in compiled.blobs())
    for x in (_Q, _Q[..., :3]):
        torch.testing.assert_close(compiled(x)[0], F.scaled_dot_product_attention(x, x, x))
    scaled = Call(lambda x: F.scaled_dot_product_attention(x, x, x, scale=0.5))
    assert operations(compile_module(scaled, (_Q,), dynamic_shapes=depth).blobs()[0]) == ["Sdpa"]


def test_rejected() -> None:
    left = rejected(lambda x: F.conv2d(x, torch.ones(2, 6, 3, 3, dtype=torch.int64)), (ints(1, 6, 5, 5),))
    assert [rule for _, rule, _ in left] == ["dtype"]
    height = (({2: torch.export.Dim("height", min=4, max=16)},),)
    function = Call(lambda x: F.max_pool2d(x, 2, return_indices=True))
    compiled = compile_module(function, (_IMAGE,), dynamic_shapes=height)
    assert [rule for _, rule, _ in compiled.left] == ["shape"]
