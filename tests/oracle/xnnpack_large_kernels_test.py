# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions of more than 25 taps in the stock runtime: sums of small ones, exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from delegatec.backends.xnnpack.testing.grid import operations
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized
from tests.oracle.xnnpack import lowered_exported, run_in_runtime


def depthwise(channels: int, kernel: Any, **settings: Any) -> nn.Conv2d:
    torch.manual_seed(0)
    return nn.Conv2d(channels, channels, kernel, groups=channels, **settings)


CASES: dict[str, tuple[nn.Module, tuple[int, ...], int]] = {
    "7 x 7": (depthwise(8, 7, padding=3), (2, 8, 14, 15), 5),
    "without a bias": (depthwise(8, 7, padding=3, bias=False), (1, 8, 14, 15), 5),
    "with a stride": (depthwise(8, 7, padding=3, stride=2), (1, 8, 14, 15), 5),
    "with a dilation": (depthwise(8, 7, padding=6, dilation=2), (1, 8, 24, 25), 5),
    "without padding": (depthwise(8, 7), (1, 8, 14, 15), 4),
    "asymmetric padding": (nn.Sequential(nn.ZeroPad2d((6, 0, 2, 4)), depthwise(8, 7)), (1, 8, 14, 15), 3),
    "unlike sizes": (
        depthwise(8, (7, 9), padding=(1, 2), dilation=(2, 1), stride=(1, 3)),
        (1, 8, 24, 25),
        3,
    ),
    "9 x 9": (depthwise(8, 9, padding=4), (1, 8, 14, 15), 4),
    "11 x 11": (depthwise(8, 11, padding=5), (1, 8, 14, 15), 6),
    "31 x 31": (depthwise(8, 31, padding=15), (1, 8, 20, 20), 44),
    "1 x 31": (depthwise(8, (1, 31), padding=(0, 15)), (1, 8, 3, 50), 4),
    "31 x 1": (depthwise(8, (31, 1), padding=(15, 0)), (1, 8, 50, 3), 4),
    "sequences": (nn.Conv1d(8, 8, 31, padding=15, groups=8), (2, 8, 50), 4),
    "causal sequences": (
        nn.Sequential(nn.ConstantPad1d((30, 0), 0.0), nn.Conv1d(8, 8, 31, groups=8)),
        (2, 8, 50),
        2,
    ),
}


def _count(blobs: Sequence[Any]) -> int:
    return sum(operations(each.module.blob_bytes()).count("DepthwiseConvolution") for each in blobs)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("name", CASES)
def test_sums_of_small_kernels(name: str, precision: str) -> None:
    module, shape, count = CASES[name]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    # in float16, partial sums are rounded
    rtol, atol = (1e-5, 2e-6) if precision == "fp32" else (0.0, 4e-3)
    report = run_in_runtime(module.eval(), [(x,)], None, {"precision": precision}, rtol, atol)
    assert len(report.delegates) == 1
    assert _count(report.delegates) == count


# Those that differ in what surrounds the parts, not in their sizes alone.
@pytest.mark.parametrize(
    "name", ["7 x 7", "with a stride", "without padding", "asymmetric padding", "unlike sizes", "sequences"]
)
def test_int8_images(name: str) -> None:
    """They are converted to floats and back: the parts are not rounded."""
    module, shape, count = CASES[name]
    x, *others = torch.randn(3, *shape, generator=torch.Generator().manual_seed(1))
    samples = [((other,), {}) for other in others]
    exported = quantized(module, (x,), Settings(quantize_io=True), samples).methods["forward"]
    inputs, _ = exported.example_inputs or ((), {})
    wanted = exported.module(check_guards=False)(*inputs)
    report, program = lowered_exported(exported)
    assert len(report.delegates) == 1 and not report.nodes_left
    assert _count(report.delegates) == count
    (result,) = program.run(list(inputs))
    assert result.dtype == wanted.dtype == torch.int8
    torch.testing.assert_close(result, wanted, rtol=0, atol=1)


class ConvNextBlock(nn.Module):
    """A block of ConvNeXt, with a layer scale of one."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.spatial = depthwise(channels, 7, padding=3)
        self.norm = nn.LayerNorm(channels)
        self.wide, self.narrow = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.spatial(x).permute(0, 2, 3, 1))
        return x + self.narrow(nn.functional.gelu(self.wide(y))).permute(0, 3, 1, 2)


class ConformerConvolution(nn.Module):
    """The convolution of a Conformer, [batch, length, channels]."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.wide, self.out = nn.Conv1d(channels, 2 * channels, 1), nn.Conv1d(channels, channels, 1)
        self.along = nn.Conv1d(channels, channels, 31, padding=15, groups=channels)
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x: Tensor) -> Tensor:
        y = nn.functional.glu(self.wide(x.transpose(1, 2)), 1)
        return x + self.out(nn.functional.silu(self.norm(self.along(y)))).transpose(1, 2)


class LargeKernelBlock(nn.Module):
    """A block of RepLKNet: 31 x 31 next to 5 x 5, after batch norms."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.large, self.small = depthwise(channels, 31, padding=15), depthwise(channels, 5, padding=2)
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return (self.norms[0](self.large(x)) + self.norms[1](self.small(x))).relu()


def test_blocks_with_sizes_that_vary() -> None:
    rows, columns = Dim("rows", min=9, max=40), Dim("columns", min=9, max=40)
    images = [(torch.randn(2, 16, *sizes),) for sizes in ((14, 20), (9, 40), (33, 9))]
    report = run_in_runtime(ConvNextBlock(), images, ({2: rows, 3: columns},))
    assert len(report.delegates) == 1 and _count(report.delegates) == 5
    frames = [(torch.randn(2, length, 16),) for length in (40, 9, 64)]
    report = run_in_runtime(ConformerConvolution(), frames, ({1: Dim("length", min=5, max=64)},))
    assert len(report.delegates) == 1 and _count(report.delegates) == 4


def test_a_norm_is_folded_into_all_parts() -> None:
    torch.manual_seed(0)
    block = LargeKernelBlock()
    for norm in block.norms:
        norm.running_var.uniform_(0.5, 2)
        norm.running_mean.uniform_(-1, 1)
    report = run_in_runtime(block, [(torch.randn(1, 8, 20, 20),)])
    assert len(report.delegates) == 1 and _count(report.delegates) == 45
