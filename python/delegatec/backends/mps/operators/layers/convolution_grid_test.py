# SPDX-License-Identifier: Apache-2.0
"""Convolutions of many geometries, against eager mode."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.common.testing import floats
from delegatec.backends.mps.blob import read_blob
from delegatec.backends.mps.operators.grid import PRECISIONS, rejected, run_case
from delegatec.backends.mps.testing import operations

CONVOLUTIONS: dict[int, Any] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED: dict[int, Any] = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def draw(seed: int, rank: int) -> dict[str, Any]:
    """A random geometry whose result is not empty, for either kind of convolution."""
    chance = random.Random(seed)

    def some(low: int, high: int) -> list[int]:
        return [chance.randint(low, high) for _ in range(rank)]

    groups = chance.choice([1, 1, 2, 3])
    stride, dilation, taps = some(1, 4), some(1, 3), some(1, 4)
    padding = [chance.randint(0, d * (t - 1) + 1) for d, t in zip(dilation, taps, strict=True)]
    least = [max(d * (t - 1) + 1, 2 * p + 2) for d, t, p in zip(dilation, taps, padding, strict=True)]
    return {
        "groups": groups,
        "channels": groups * chance.choice([1, 2]),
        "outputs": groups * chance.choice([1, 2]),
        "taps": taps,
        "stride": stride,
        "dilation": dilation,
        "padding": padding,
        "output_padding": [chance.randint(0, max(s, d) - 1) for s, d in zip(stride, dilation, strict=True)],
        "sizes": [least[i] + chance.randint(0, 3) for i in range(rank)],
        "bias": chance.random() < 0.5,
        "batch": chance.random() < 0.8,
    }


def parts(of: dict[str, Any], transposed: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    first, second = ("channels", "outputs") if transposed else ("outputs", "channels")
    x = floats(*(2,) * of["batch"], of["channels"], *of["sizes"])
    weight = floats(of[first], of[second] // of["groups"], *of["taps"], seed=1)
    return x, weight, floats(of["outputs"], seed=2) if of["bias"] else None


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolution(rank: int, seed: int) -> None:
    of = draw(seed, rank)
    x, weight, bias = parts(of, transposed=False)
    given = () if bias is None else (bias,)

    def function(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        arguments = (of["stride"], of["padding"], of["dilation"], of["groups"])
        return CONVOLUTIONS[rank](x, weight, bias, *arguments)  # type: ignore[no-any-return]

    run_case(function, (x, weight, *given), precision=PRECISIONS[seed % 2])


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize(
    ("rank", "constant"), [(rank, constant) for rank in (1, 2, 3) for constant in (True, False)]
)
def test_transposed(rank: int, seed: int, constant: bool) -> None:
    of = draw(seed + 100 * rank, rank)
    x, weight, bias = parts(of, transposed=True)
    arguments = (of["stride"], of["padding"], of["output_padding"], of["groups"], of["dilation"])

    def function(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        return TRANSPOSED[rank](x, weight, bias, *arguments)  # type: ignore[no-any-return]

    precision = "fp32" if rank == 3 else PRECISIONS[seed % 2]
    if not constant:
        run_case(function, (x, weight, *(() if bias is None else (bias,))), precision=precision, special=1)
        return
    half = [None if t is None else t.half() for t in (weight, bias)]

    def reference(x: torch.Tensor) -> torch.Tensor:
        return function(x, *(half if x.dtype == torch.half else (weight, bias)))

    run_case(lambda x: function(x, weight, bias), (x,), precision=precision, reference=reference, special=1)


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
def test_operations(module: nn.Module, shape: tuple[int, ...], expected: str) -> None:
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
