# SPDX-License-Identifier: Apache-2.0
"""Layers, in the reference executor, compared with eager mode."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from delegatec.backends.common.testing import Call
from delegatec.backends.vulkan.testing import calls, compile_module, graph_of, run_case
from delegatec.backends.vulkan.testing.grid import IMAGE, Case, X, Y, floats, over_settings

TALL = floats(1, 8, 20)
GRID = floats(1, 5, 6, 2).tanh()
ROWS = floats(5, 7)
SCALES = floats(4, seed=3)


class Both(nn.Module):
    """Uses its operand clamped, and unclamped."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu() + x


def module(make: Any, *args: Any, **kwargs: Any) -> nn.Module:
    """Returns a module with fixed weights."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = make(*args, **kwargs).eval()
        for parameter in made.buffers():
            if parameter.is_floating_point():
                parameter.add_(torch.rand(parameter.shape))
    return made  # type: ignore[no-any-return]


CELLS = module(nn.LSTM, 8, 6)


def convolution(*args: Any, **kwargs: Any) -> nn.Module:
    """Returns a convolution from 8 to 8 channels, unless others are given."""
    return module(nn.Conv2d, *(args or (8, 8)), **kwargs)


PRODUCTS: dict[str, Case] = {
    "mm": (torch.mm, (ROWS, floats(7, 3)), "mm"),
    "bmm": (torch.bmm, (floats(4, 5, 7), floats(4, 7, 6)), "bmm"),
    "matmul": (torch.matmul, (floats(2, 3, 5, 7), floats(2, 3, 7, 6)), ""),
    "mm of a constant": (lambda x: x @ torch.arange(20.0).view(4, 5), (floats(3, 4),), "mm"),
    "addmm": (torch.addmm, (floats(3), ROWS, floats(7, 3)), "addmm"),
    "addmm of a matrix": (torch.addmm, (floats(5, 3), ROWS, floats(7, 3)), "mm add.Tensor"),
    "scaled addmm": (
        lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2),
        (floats(3), ROWS, floats(7, 3)),
        "addmm",
    ),
    "baddbmm": (torch.baddbmm, (floats(4, 5, 6), floats(4, 5, 7), floats(4, 7, 6)), ""),
    "linear without bias": (module(nn.Linear, 7, 6, bias=False), (ROWS,), "linear"),
    "linear of a variable": (
        functional.linear,
        (ROWS, floats(3, 7), floats(3)),
        "permute_copy mm add.Tensor",
    ),
}
CONVOLUTIONS: dict[str, Case] = {
    "3 x 3": (convolution(kernel_size=3), (IMAGE,), "convolution"),
    "padded": (convolution(kernel_size=3, padding=1), (IMAGE,), "convolution"),
    "same": (convolution(kernel_size=3, padding="same"), (IMAGE,), "convolution"),
    "strided": (convolution(kernel_size=3, stride=2, padding=1), (IMAGE,), "convolution"),
    "dilated": (convolution(kernel_size=3, dilation=2), (IMAGE,), "convolution"),
    "1 x 1": (convolution(kernel_size=1), (IMAGE,), "convolution"),
    "without bias": (convolution(kernel_size=5, bias=False), (IMAGE,), "convolution"),
    "1 x 3": (convolution(kernel_size=(1, 3), padding=(0, 1)), (IMAGE,), "convolution"),
    "one channel": (
        convolution(1, 1, kernel_size=2),
        (floats(1, 1, 9, 10),),
        "convolution slice_copy.Tensor",
    ),
    "one channel 3 x 3": (convolution(1, 1, kernel_size=3), (floats(1, 1, 9, 10),), "convolution"),
    "odd channels": (convolution(7, 5, kernel_size=3), (floats(1, 7, 9, 10),), "convolution"),
    "many channels": (convolution(8, 130, kernel_size=3), (IMAGE,), "convolution"),
    "depthwise 3 x 3": (convolution(kernel_size=3, groups=8, padding=1), (IMAGE,), "convolution"),
    "depthwise 5 x 5": (convolution(kernel_size=5, groups=8, stride=2), (IMAGE,), "convolution"),
    "depthwise 7 x 7": (convolution(kernel_size=7, groups=8, padding=3), (IMAGE,), "convolution"),
    "depthwise 1 x 1": (convolution(kernel_size=1, groups=8), (IMAGE,), "convolution"),
    "two groups": (convolution(kernel_size=3, groups=2), (IMAGE,), "convolution"),
    "four groups": (convolution(kernel_size=3, groups=4), (IMAGE,), "convolution"),
    "several filters a channel": (convolution(8, 16, kernel_size=3, groups=8), (IMAGE,), "convolution"),
    "a batch": (
        convolution(kernel_size=3),
        (floats(3, 8, 9, 10),),
        "split_with_sizes_copy convolution convolution convolution cat",
    ),
    "transposed": (module(nn.ConvTranspose2d, 8, 6, 3, stride=2, output_padding=1), (IMAGE,), "convolution"),
    "of a sequence": (module(nn.Conv1d, 8, 6, 3, padding=1), (TALL,), "convolution"),
    "of a sequence, 1": (module(nn.Conv1d, 8, 6, 1), (TALL,), "convolution"),
    "of sequences, depthwise": (module(nn.Conv1d, 8, 8, 3, groups=8), (floats(3, 8, 20),), "convolution"),
    "clamped": (nn.Sequential(convolution(kernel_size=3), nn.ReLU6()), (IMAGE,), "conv_with_clamp"),
    "clamped, depthwise": (
        nn.Sequential(convolution(kernel_size=3, groups=8), nn.Hardtanh(-0.5, 0.25)),
        (IMAGE,),
        "conv_with_clamp",
    ),
    "clamped, used twice": (
        nn.Sequential(convolution(kernel_size=3), Both()),
        (IMAGE,),
        "convolution relu add.Tensor",
    ),
    "batch norm, folded": (
        nn.Sequential(convolution(kernel_size=3), module(nn.BatchNorm2d, 8), nn.ReLU()),
        (IMAGE,),
        "conv_with_clamp",
    ),
}
OTHERS: dict[str, Case] = {
    "max pool": (nn.MaxPool2d(3, 2, 1), (IMAGE,), "max_pool2d_with_indices"),
    "max pool, ceiling": (nn.MaxPool2d(3, 2, ceil_mode=True), (IMAGE,), "max_pool2d_with_indices"),
    "max pool with indices": (nn.MaxPool2d(2, return_indices=True), (floats(2, 5, 9, 11),), ""),
    "avg pool": (nn.AvgPool2d(3, 2, 1), (IMAGE,), "avg_pool2d"),
    "avg pool without padding": (nn.AvgPool2d(3, 2, 1, count_include_pad=False), (IMAGE,), "avg_pool2d"),
    "avg pool by a divisor": (nn.AvgPool2d(2, divisor_override=3), (floats(2, 5, 9, 11),), "avg_pool2d"),
    "avg pool by a negative divisor": (
        nn.AvgPool2d(2, divisor_override=-3),
        (floats(2, 5, 9, 11),),
        "avg_pool2d mul.Tensor",
    ),
    "global avg pool": (nn.AdaptiveAvgPool2d(1), (IMAGE,), "mean.dim"),
    "nearest": (lambda x: functional.interpolate(x, scale_factor=2), (IMAGE,), "upsample_nearest2d.vec"),
    **{
        f"bilinear {scale} {corners}": (
            lambda x, scale=scale, corners=corners: functional.interpolate(
                x, scale_factor=scale, mode="bilinear", align_corners=corners
            ),
            (IMAGE,),
            "upsample_bilinear2d.vec",
        )
        for scale in (2, 0.5)
        for corners in (False, True)
    },
    "grid": (
        lambda x, grid: functional.grid_sample(x, grid, padding_mode="border", align_corners=True),
        (IMAGE, GRID),
        "grid_sampler_2d",
    ),
    "pixel shuffle": (lambda x: functional.pixel_shuffle(x, 2) * 2, (IMAGE,), "pixel_shuffle mul.Tensor"),
    **{
        f"layer norm of {shape}": (
            module(nn.LayerNorm, shape[-1]),
            (floats(*shape) * 3 + 1,),
            "native_layer_norm",
        )
        for shape in ((4, 6), (3, 4, 8), (3, 12, 12), (1, 197, 64), (2, 3, 4, 5))
    },
    "group norm": (
        module(nn.GroupNorm, 2, 8),
        (IMAGE,),
        "slice_copy.Tensor mean.dim view_copy linear expand_copy view_copy sub.Tensor native_group_norm",
    ),
    "group norm of a batch": (module(nn.GroupNorm, 4, 8), (floats(2, 8, 5, 5),), ""),
    "group norm of rows": (
        module(nn.GroupNorm, 2, 8),
        (floats(3, 8),),
        "",
    ),
    "statistics of groups": (
        lambda x: torch.native_group_norm(x, SCALES.repeat(2), None, 2, 8, 20, 4, 1e-5),
        (floats(2, 8, 4, 5) + 1,),
        "",
    ),
    "instance norm": (
        module(nn.InstanceNorm2d, 8),
        (IMAGE,),
        "slice_copy.Tensor mean.dim sub.Tensor native_group_norm",
    ),
    "rms norm": (module(nn.RMSNorm, 4), (X,), "rms_norm"),
    "rms norm of padded rows": (module(nn.RMSNorm, 7, eps=0.1), (ROWS,), "rms_norm"),
    "rms norm without weights": (lambda x: functional.rms_norm(x, (4,)), (X,), "rms_norm"),
    "rms norm of two dimensions": (module(nn.RMSNorm, (3, 4)), (X,), "view_copy rms_norm view_copy"),
    "rms norm of rank 5": (module(nn.RMSNorm, 4), (X[None, None],), "view_copy rms_norm view_copy"),
    "rms norm of many rows": (module(nn.RMSNorm, 4), (floats(70000, 4),), ""),
    "rms norm by hand": (lambda x: x * (x.pow(2).mean(-1, True) + 1e-6).rsqrt() * SCALES, (X,), "rms_norm"),
    **{
        f"softmax of {shape} along {dim}": (lambda x, dim=dim: x.softmax(dim), (floats(*shape),), "")
        for shape, dim in (((8, 16), 0), *(((1, 3, 19, 19), dim) for dim in range(4)))
    },
    "linear of rank 5": (module(nn.Linear, 7, 3), (ROWS.view(1, 1, 1, 5, 7),), "view_copy linear view_copy"),
    "log softmax of sines": (lambda x: x.sin().log_softmax(-1), (X,), "sin _log_softmax"),
    "log softmax of minus infinity": (
        lambda x: x.masked_fill(x > 1, -math.inf).log_softmax(1),
        (floats(3, 8),),
        "",
    ),
    "log softmax of columns with minus infinity": (
        lambda x: x.masked_fill(x > 0, -math.inf).log_softmax(0),
        (floats(4, 6) + torch.tensor([-9.0, 0, 0, 0])[:, None],),
        "",
    ),
    **{
        f"softmax of {size} channels": (
            lambda x: (x - 20).softmax(1),
            (floats(1, size, 4, 8),),
            "sub.Tensor _softmax",
        )
        for size in (1, 3)
    },
    "softmax of masks": (
        lambda x: x.masked_fill(torch.tensor([True, False]).view(2, 1, 1), torch.finfo().min).softmax(-1),
        (X,),
        "",
    ),
    "embedding": (module(nn.Embedding, 10, 6), (torch.tensor([[1, 5, 9], [0, 0, 3]]),), "embedding"),
    "embedding of a list": (module(nn.Embedding, 10, 8), (torch.tensor([1, 5, 9]),), "embedding"),
    "attention": (functional.scaled_dot_product_attention, (floats(1, 2, 7, 16),) * 3, ""),
    "causal attention": (
        lambda q, k: functional.scaled_dot_product_attention(q, k, q, is_causal=True),
        (floats(1, 2, 7, 16), floats(1, 2, 7, 16, seed=1)),
        "",
    ),
    "transformer": (
        module(nn.TransformerEncoderLayer, 16, 4, 32, batch_first=True),
        (floats(2, 7, 16),),
        "",
    ),
    "lstm": (lambda x: CELLS(x)[0], (floats(3, 2, 8),), ""),
}


def _check(case: Case, options: dict[str, str]) -> None:
    function, args, expected = case
    found = run_case(function, args, "", **options)
    if expected and options.get("precision") != "fp16":
        assert calls(found) == expected.split()


@over_settings(PRODUCTS)
def test_products(case: Case, options: dict[str, str]) -> None:
    _check(case, options)


@over_settings(CONVOLUTIONS)
def test_convolutions(case: Case, options: dict[str, str]) -> None:
    _check(case, options)


@over_settings(OTHERS)
def test_layers(case: Case, options: dict[str, str]) -> None:
    _check(case, options)


PEAK = 1e-3 * IMAGE
PEAK[..., 0, 0] = 1e3
LARGE_MEANS: dict[str, Case] = {
    "equal elements": (module(nn.GroupNorm, 2, 8), (torch.full((1, 8, 5, 7), 419.3),), ""),
    "a large mean": (module(nn.GroupNorm, 2, 8), (IMAGE + 1000,), ""),
    "large means of channels": (module(nn.InstanceNorm1d, 8), (floats(2, 8, 50) + 1000,), ""),
    "one large element": (module(nn.InstanceNorm2d, 8), (PEAK,), ""),
    "a large mean of rows": (module(nn.GroupNorm, 2, 8), (floats(3, 8) + 100,), ""),
}


@over_settings(LARGE_MEANS)
def test_group_norms_subtract_the_mean_before_they_square(case: Case, options: dict[str, str]) -> None:
    layer, (x,), _ = case
    precise = copy.deepcopy(layer).double()
    is_half = options.get("precision") == "fp16"
    x = x.half().float() if is_half else x
    wanted = precise(x.double()).float()  # eager mode loses digits in float32
    (found,) = compile_module(layer, (x,), **options)(x)
    relative, absolute = (1e-2, 4e-3) if is_half else (2e-5, 2e-6)
    torch.testing.assert_close(found, wanted, rtol=relative, atol=absolute)


def test_equal_weights_are_stored_once() -> None:
    tied = nn.Linear(4, 4, bias=False)
    compiled = run_case(lambda x: tied(tied(x)) + tied.weight, (X[0, :1].expand(4, 4),))
    graph = graph_of(compiled)
    assert len(graph.constants) == len({each.key for each in graph.constants}) == 1


def test_a_convolution_of_variable_weights_is_not_delegated() -> None:
    compiled = compile_module(Call(functional.conv2d), (IMAGE, floats(4, 8, 3, 3)))
    assert compiled.delegates == []
    assert [(rule, message[:25]) for _, rule, message in compiled.left] == [
        ("constant", "weight is not a constant.")
    ]


def test_products_of_integers_are_not_delegated() -> None:
    compiled = compile_module(Call(torch.mm), (torch.ones(2, 2, dtype=torch.int64),) * 2)
    assert [rule for _, rule, _ in compiled.left] == ["dtype"]
    assert compile_module(Call(lambda x, y: x @ y), (X, Y.mT)).left == []


def test_reasons_are_about_the_call_and_name_the_texture() -> None:
    flipped = Call(lambda x: x.flip(0, 2, 4) * 2)
    (found,) = compile_module(flipped, (torch.rand(2, 3, 3, 2, 2),)).left
    assert found[2].startswith("rank 5. Rank is at most 4")
    convolution, image = nn.Conv2d(1, 1, 3), floats(1, 1, 2049, 3)
    (found,) = compile_module(convolution, (image,), textures="desktop").left
    text = "a texture of shape [1, 1, 2049, 3] has 3 x 2049 x 1 texels, more than 2048 x 2048 x 2048. "
    assert found[1] == "storage" and found[2].startswith(text)
    assert compile_module(convolution, (image,)).left == []
