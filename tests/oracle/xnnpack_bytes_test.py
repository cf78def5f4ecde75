# SPDX-License-Identifier: Apache-2.0
"""Inputs of int8 and uint8, such as the pixels of a camera, on XNNPACK in the stock runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as f

from delegatec.backends.common.testing import Call
from delegatec.backends.xnnpack.testing.grid import operations
from delegatec.edge.quantization.operators import DEQUANTIZE
from tests.oracle.xnnpack import run_in_runtime

_BYTES: Final = torch.arange(256).to(torch.uint8)


def _pixels(*shape: int) -> Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def _dequantized(x: Tensor) -> Tensor:
    result: Tensor = DEQUANTIZE(x, 0.1, 3, 0, 255, torch.uint8)
    return result


class _Camera(nn.Module):
    """Normalizes an image [N, H, W, C] of bytes, and convolves it."""

    def __init__(self, normalize: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.normalize = normalize
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))

    def forward(self, x: Tensor) -> Any:
        return self.layers(self.normalize(x))


@pytest.mark.parametrize(
    "normalize",
    [
        lambda x: x.permute(0, 3, 1, 2).float() / 255,
        lambda x: (x.permute(0, 3, 1, 2).to(torch.float32) - 127.5) / 127.5,
        lambda x: (x / 255 - 0.5).permute(0, 3, 1, 2),
    ],
)
@pytest.mark.parametrize("sizes", [None, ({0: Dim("batch", min=1, max=4)},)])
def test_images_of_a_camera(normalize: Callable[[Tensor], Tensor], sizes: Any) -> None:
    batches = (2, 4, 1) if sizes else (1,)
    report = run_in_runtime(_Camera(normalize), [(_pixels(batch, 16, 20, 3),) for batch in batches], sizes)
    assert (len(report.delegates), report.rejections) == (1, [])
    assert "Transpose" not in operations(report.delegates[0].module.blob_bytes())


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
@pytest.mark.parametrize("result", [torch.float32, torch.float16])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_all_bytes(dtype: torch.dtype, result: torch.dtype, precision: str) -> None:
    x = _BYTES.view(dtype).view(16, 16)
    report = run_in_runtime(Call(lambda x: x.to(result) * 0.5), [(x,)], None, {"precision": precision})
    assert (len(report.delegates), report.rejections) == (1, [])


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda x: x.float() + _dequantized(x), 1),
        (lambda x: _dequantized(x) + x.float() * 2, 1),
        (lambda x: (_dequantized(x.t()) + 1, x.float() * 2), 2),
        (lambda x: (x.half() * 2, x.float(), x), 1),
        (lambda x: (x.float() * 2, x.to(torch.int32)), 1),
        (lambda x: (x.float() * 2).to(torch.uint8), 1),
        (lambda x: f.linear(x.float(), torch.ones(3, 6)), 0),
        (lambda x: x.view(-1)[3:9].float() * 2, 3),
    ],
)
def test_what_else_reads_bytes(function: Callable[[Tensor], Any], left: int) -> None:
    report = run_in_runtime(Call(function), [(_pixels(4, 6) // 2,)])
    assert (len(report.delegates), report.nodes_left) == (1, left)


class _Cache(nn.Module):
    """Writes rows of a buffer of bytes, and reads all of them."""

    rows: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(4, 8, dtype=torch.int8))

    def forward(self, at: Tensor, new: Tensor) -> Tensor:
        self.rows.index_put_((at,), new)
        return self.rows.to(torch.float32).softmax(1)


def test_a_cache_of_bytes() -> None:
    new = torch.arange(-8, 8).to(torch.int8).view(2, 8)
    calls = [(torch.tensor(at), new * scale) for at, scale in (([0, 2], 1), ([3, 1], -2), ([2, 3], 3))]
    report = run_in_runtime(_Cache(), calls)
    assert len(report.delegates) == 1
    assert "aten._to_copy.default" not in {each.operator for each in report.rejections}
