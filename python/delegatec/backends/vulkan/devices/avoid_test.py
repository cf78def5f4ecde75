# SPDX-License-Identifier: Apache-2.0
"""Programs for devices with faults: no blob has a faulty size, and results are those of eager mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from delegatec.backends.common.testing import Compiled
from delegatec.backends.vulkan.blob import read_blob
from delegatec.backends.vulkan.operators.quantized.testing import Layer, dq, q, quantized_values, scales
from delegatec.backends.vulkan.testing import compile_module, name_of, run_case, run_sizes
from delegatec.backends.vulkan.testing.grid import floats
from delegatec.edge.quantization.operators import quantized

DEVICE: Final = "adreno-840"
PRODUCTS: Final = (
    "linear",
    "mm",
    "bmm",
    "addmm",
    "linear_q8csw",
    "linear_q4gsw",
    "q8ta_linear",
    "q8ta_linear_gemv",
)
CONVOLUTIONS: Final = ("convolution", "conv_with_clamp", "q8ta_conv2d", "q8ta_conv2d_pw")
GROUPS: Final = {"convolution": 8, "conv_with_clamp": 8, "q8ta_conv2d": 13, "q8ta_conv2d_pw": 13}
"""Position of the number of groups among the arguments of the runtime's operator."""


def shapes(blob: bytes) -> Iterator[tuple[str, str, int]]:
    """Yields operator, name of a size and its upper bound for products and convolutions without groups.

    It reads the blob alone: positions of arguments are those of the runtime's operators.
    """
    graph = read_blob(memoryview(blob)).graph
    values = graph.values
    for call in graph.chain:
        name, result = name_of(call), values[call.args[-1]].content
        if name in PRODUCTS:
            *outer, rows, _ = result.dims
            yield name, "rows", rows * (_count(outer) if name.startswith("linear") else 1)
        elif name == "sdpa":
            yield name, "rows", values[call.args[0]].content.dims[-2]
        elif name in CONVOLUTIONS:
            groups = values[call.args[GROUPS[name]]].content.value
            is_transposed = name in ("convolution", "conv_with_clamp") and values[call.args[6]].content.value
            if groups == 1 and not is_transposed:
                yield name, "channels", result.dims[1]


def _count(sizes: list[int]) -> int:
    count = 1
    for size in sizes:
        count *= size
    return count


def faulty(compiled: Compiled) -> list[tuple[str, str, int]]:
    """Returns the sizes in all blobs that the built-in device computes wrongly."""
    return [
        each
        for blob in compiled.blobs()
        for each in shapes(bytes(blob))
        if (each[1] == "channels" and 160 < each[2] < 200) or (each[1] == "rows" and each[2] >= 1024)
    ]


class MobileBlock(nn.Module):
    """Inverted residuals of MobileNetV2, with 168 to 192 channels inside."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(*(self._block(inner) for inner in (168, 176, 184, 192)))
        self.head = nn.Linear(32, 10)

    def _block(self, inner: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(32, inner, 1, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU6(),
            nn.Conv2d(inner, inner, 3, padding=1, groups=inner, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU6(),
            nn.Conv2d(inner, 32, 1),
            nn.Conv2d(32, inner, 3, padding=1),
            nn.Conv2d(inner, 32, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Returns scores of (1, 3, height, width)."""
        return self.head(self.blocks(self.stem(x).relu()).mean((2, 3)))  # type: ignore[no-any-return]


class Vit(nn.Module):
    """Two blocks of a transformer over the 1,025 patches of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 4, stride=4)
        self.token = nn.Parameter(floats(1, 1, 32))
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(4))
        self.inputs = nn.ModuleList(nn.Linear(32, 96) for _ in range(2))
        self.outputs = nn.ModuleList(nn.Linear(32, 32) for _ in range(2))
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)) for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Returns (1, tokens, 32) of (1, 3, height, width)."""
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token, x], 1)
        for block in range(2):
            joined = self.inputs[block](self.norms[2 * block](x)).view(1, -1, 3, 2, 16).permute(2, 0, 3, 1, 4)
            attended = functional.scaled_dot_product_attention(*joined)
            x = x + self.outputs[block](attended.transpose(1, 2).flatten(2))
            x = x + self.layers[block](self.norms[2 * block + 1](x))
        return x


def _int8_layer(function: Callable[..., Tensor], *shape: int, **arguments: Any) -> Layer:
    def forward(layer: Any, x: Tensor) -> Tensor:
        weight = quantized.dequantize_per_channel(layer.weight, layer.scale, None, 0, -127, 127, torch.int8)
        result = function(dq(q(x)), weight, layer.bias, **arguments)
        return dq(q(result.relu(), 0.25, -5), 0.25, -5)

    constants = {"weight": quantized_values(*shape, low=-127), "scale": scales(shape[0])}
    return Layer(forward, **constants, bias=floats(shape[0], seed=4))


def _weight_only(function: Callable[..., Tensor], *shape: int) -> Layer:
    def forward(layer: Any, x: Tensor) -> Tensor:
        weight = quantized.dequantize_per_channel(layer.weight, layer.scale, None, 0, -127, 127, torch.int8)
        return function(x, weight)

    return Layer(forward, weight=quantized_values(*shape, low=-127), scale=scales(shape[0]))


def attention(x: Tensor, mask: Tensor) -> Tensor:
    """Attends with a mask per query."""
    return functional.scaled_dot_product_attention(x, x * 0.5, x + 1, attn_mask=mask)


CASES: Final[dict[str, tuple[Any, tuple[Tensor, ...]]]] = {
    "convolution": (nn.Conv2d(8, 168, 3, padding=1), (floats(1, 8, 9, 10),)),
    "clamped convolution": (nn.Sequential(nn.Conv2d(8, 192, 3), nn.ReLU6()), (floats(1, 8, 9, 10),)),
    "pointwise": (nn.Conv2d(8, 184, 1, bias=False), (floats(1, 8, 9, 10),)),
    "of an odd number of channels": (nn.Conv2d(8, 163, 3), (floats(1, 8, 9, 10),)),
    "of images": (nn.Conv2d(8, 176, 3), (floats(2, 8, 5, 6),)),
    "of a sequence": (nn.Conv1d(8, 176, 3), (floats(1, 8, 20),)),
    "linear": (nn.Linear(12, 8), (floats(1, 1500, 12),)),
    "linear of a batch": (nn.Linear(12, 8), (floats(3, 500, 12),)),
    "linear of four dimensions": (nn.Linear(12, 8), (floats(2, 3, 600, 12),)),
    "mm": (lambda a, b: a @ b, (floats(1100, 8), floats(8, 12))),
    "bmm": (lambda a, b: a @ b, (floats(3, 1024, 8), floats(3, 8, 12))),
    "addmm": (lambda a, b, c: torch.addmm(c, a, b, alpha=0.5), (floats(2050, 8), floats(8, 12), floats(12))),
    "addmm with a row for each": (torch.addmm, (floats(1100, 12), floats(1100, 8), floats(8, 12))),
    "addmm with a column": (torch.addmm, (floats(1100, 1), floats(1100, 8), floats(8, 12))),
    "attention": (attention, (floats(1, 2, 1028, 8), floats(1, 1, 1028, 1028))),
    "attention with one mask": (attention, (floats(1, 2, 1028, 8), floats(1, 1028))),
    "causal attention": (
        lambda q, k: functional.scaled_dot_product_attention(q, k, k + 1, is_causal=True),
        (floats(1, 2, 1028, 8), floats(1, 2, 1028, 8)),
    ),
    "causal attention with few keys": (
        lambda q, k: functional.scaled_dot_product_attention(q, k, k + 1, is_causal=True),
        (floats(1, 2, 1028, 8), floats(1, 2, 16, 8)),
    ),
    "int8 convolution": (_int8_layer(functional.conv2d, 168, 8, 3, 3), (floats(1, 8, 9, 10),)),
    "int8 pointwise": (_int8_layer(functional.conv2d, 172, 8, 1, 1), (floats(1, 8, 9, 10),)),
    "int8 linear": (_int8_layer(functional.linear, 12, 16), (floats(1030, 16),)),
    "int8 weight of a linear layer": (_weight_only(functional.linear, 12, 16), (floats(1, 1030, 16),)),
    "int8 weight of a pointwise convolution": (
        _weight_only(functional.conv2d, 12, 8, 1, 1),
        (floats(1, 8, 40, 40),),
    ),
    "patches": (nn.Conv2d(3, 180, 4, stride=4), (floats(1, 3, 32, 32),)),
    "MobileNetV2": (MobileBlock().eval(), (floats(1, 3, 24, 24),)),
    "vision transformer": (Vit().eval(), (floats(1, 3, 128, 128),)),
}


@pytest.mark.parametrize("storage", ["texture", "buffer"])
@pytest.mark.parametrize("name", CASES)
def test_faulty_sizes_are_avoided(name: str, storage: str) -> None:
    function, args = CASES[name]
    compiled = run_case(function, args, device=DEVICE, storage=storage)
    assert not faulty(compiled)
    assert any(True for blob in compiled.blobs() for _ in shapes(bytes(blob)))


@pytest.mark.parametrize(
    "name", ["convolution", "pointwise", "patches", "int8 convolution", "linear", "attention"]
)
def test_faulty_sizes_are_avoided_in_float16(name: str) -> None:
    function, args = CASES[name]
    compiled = run_case(function, args, device=DEVICE, precision="fp16")
    assert not faulty(compiled)
    assert compiled.left == []


@pytest.mark.parametrize("name", CASES)
def test_the_sizes_are_faulty_without_a_device(name: str) -> None:
    """So the check above sees what the device avoids."""
    function, args = CASES[name]
    assert faulty(run_case(function, args))


def test_dynamic_images_at_both_bounds() -> None:
    sizes = {2: torch.export.Dim("height", min=4, max=20), 3: torch.export.Dim("width", min=4, max=20)}
    batches = [(floats(1, 3, *size),) for size in ((10, 8), (4, 4), (20, 20))]
    compiled = run_sizes(MobileBlock().eval(), [sizes], batches, device=DEVICE)
    assert not faulty(compiled)


@pytest.mark.parametrize("name", ["layer", "product"])
def test_dynamic_rows_at_both_bounds(name: str) -> None:
    """Every run has all parts."""
    function: Any = nn.Linear(8, 12) if name == "layer" else (lambda x: x @ x.transpose(1, 2)[:, :, :12])
    sizes = {1: torch.export.Dim("rows", min=1030, max=1500)}
    batches = [(floats(1, rows, 8),) for rows in (1200, 1030, 1500)]
    compiled = run_sizes(function, [sizes], batches, device=DEVICE)
    assert not faulty(compiled)
    assert [each[2] for blob in compiled.blobs() for each in shapes(bytes(blob))] == [752, 748]


def test_rows_that_some_runs_lack_are_computed_outside() -> None:
    sizes = ({1: torch.export.Dim("rows", min=2, max=1500)},)
    layer = nn.Linear(8, 12)
    compiled = compile_module(layer, (floats(1, 20, 8),), sizes, device=DEVICE)
    assert not faulty(compiled)
    (reason,) = {each.message for each in compiled.report.rejections if each.rule == "device"}
    assert reason.startswith("up to 1500 rows. On adreno-840, ")
    for rows in (2, 1500):
        x = floats(1, rows, 8)
        torch.testing.assert_close(compiled(x)[0], layer(x), rtol=1e-5, atol=1e-5)
