# SPDX-License-Identifier: Apache-2.0
"""Networks with values of seven to nine dimensions are one delegate, which the stock runtime runs.

XNNPACK has values of at most six: window attention of volumes (Swin3D), windows and grids of heads (MaxViT,
OmniSR), pooled attention with relative positions (MViT), repeated heads (DiffLlama).
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional as f

from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized
from tests.oracle.xnnpack import lowered_exported, run_in_runtime

_CHANNELS = 16
_HEADS = 2
_HEAD = _CHANNELS // _HEADS


class VolumeWindows(nn.Module):
    """Attention in shifted windows of 2 x 2 x 2 voxels, [batch, depth, height, width, channels]."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(_CHANNELS)
        self.values, self.out = nn.Linear(_CHANNELS, 3 * _CHANNELS), nn.Linear(_CHANNELS, _CHANNELS)
        self.positions = nn.Parameter(torch.randn(_HEADS, 8, 8))

    def forward(self, x: Tensor) -> Tensor:
        b, d, h, w, _ = x.shape
        y = torch.roll(self.norm(x), (-1, -1, -1), (1, 2, 3))
        y = y.view(b, d // 2, 2, h // 2, 2, w // 2, 2, _CHANNELS)
        y = y.permute(0, 1, 3, 5, 2, 4, 6, 7).reshape(-1, 8, _CHANNELS)
        q, k, v = self.values(y).reshape(-1, 8, 3, _HEADS, _HEAD).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * _HEAD**-0.5 + self.positions
        y = self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, 8, _CHANNELS))
        y = y.view(b, d // 2, h // 2, w // 2, 2, 2, 2, _CHANNELS)
        y = y.permute(0, 1, 4, 2, 5, 3, 6, 7).reshape(b, d, h, w, _CHANNELS)
        return x + torch.roll(y, (1, 1, 1), (1, 2, 3))


class ValueSets(nn.Module):
    """Attention in windows, then in grids, of 4 x 4 pixels, heads apart."""

    def __init__(self) -> None:
        super().__init__()
        self.values = nn.Conv2d(_CHANNELS, 3 * _CHANNELS, 1, bias=False)
        self.out = nn.Conv2d(_CHANNELS, _CHANNELS, 1)

    def _attend(self, x: Tensor, is_grid: bool) -> Tensor:
        b, _, height, width = x.shape
        rows, columns = height // 4, width // 4
        sizes = (4, rows, 4, columns) if is_grid else (rows, 4, columns, 4)
        order = (0, 4, 6, 1, 3, 5, 2) if is_grid else (0, 3, 5, 1, 4, 6, 2)
        q, k, v = (
            each.view(b, _HEADS, _HEAD, *sizes).permute(*order).reshape(-1, 16, _HEAD)
            for each in self.values(x).chunk(3, 1)
        )
        scores = f.normalize(q, dim=-1) @ f.normalize(k, dim=-1).transpose(-1, -2)
        y = (scores.softmax(-1) @ v).view(b, rows, columns, _HEADS, 4, 4, _HEAD)
        back = (0, 3, 6, 4, 1, 5, 2) if is_grid else (0, 3, 6, 1, 4, 2, 5)
        return self.out(y.permute(*back).reshape(b, _CHANNELS, height, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self._attend(x, False)
        return x + self._attend(x, True)


class PooledVolumes(nn.Module):
    """Attention to pooled voxels, with scores of relative positions along each of three axes."""

    def __init__(self) -> None:
        super().__init__()
        self.values, self.out = nn.Linear(_CHANNELS, 3 * _CHANNELS), nn.Linear(_CHANNELS, _CHANNELS)
        self.pools = nn.ModuleList(
            nn.Conv3d(_HEAD, _HEAD, 3, (1, stride, stride), 1, groups=_HEAD) for stride in (1, 2, 2)
        )
        self.positions = nn.ParameterList(nn.Parameter(torch.randn(size, 2, _HEAD)) for size in (2, 4, 4))

    def forward(self, x: Tensor) -> Tensor:
        b = x.shape[0]
        parts = self.values(x).view(b, 32, 3, _HEADS, _HEAD).permute(2, 0, 3, 1, 4)
        volumes = [each.reshape(b * _HEADS, 2, 4, 4, _HEAD).permute(0, 4, 1, 2, 3) for each in parts]
        q, k, v = (
            pool(each).reshape(b, _HEADS, _HEAD, -1).transpose(2, 3)
            for pool, each in zip(self.pools, volumes, strict=True)
        )
        grid = q.view(b, _HEADS, 2, 4, 4, _HEAD)
        depth = torch.einsum("bythwc,tkc->bythwk", grid, self.positions[0])
        height = torch.einsum("bythwc,hkc->bythwk", grid, self.positions[1])
        width = torch.einsum("bythwc,wkc->bythwk", grid, self.positions[2])
        scores = (q @ k.transpose(-1, -2) * _HEAD**-0.5).view(b, _HEADS, 2, 4, 4, 2, 2, 2)
        scores = scores + depth[..., :, None, None] + height[..., None, :, None] + width[..., None, None, :]
        y = scores.view(b, _HEADS, 32, 8).softmax(-1) @ v + q
        return self.out(y.transpose(1, 2).reshape(b, 32, _CHANNELS))


class RepeatedHeads(nn.Module):
    """Values whose heads are repeated for two attentions."""

    def __init__(self) -> None:
        super().__init__()
        self.values = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.values(x).repeat(1, 2, 1, 1).softmax(-1) * 2 + x.repeat(2, 1, 1, 1).view(
            *x.shape[:1], -1, *x.shape[2:]
        )


NETWORKS: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "volume windows": (VolumeWindows, (2, 4, 4, 6, _CHANNELS)),
    "grids": (ValueSets, (2, _CHANNELS, 8, 12)),
    "pooled volumes": (PooledVolumes, (2, 32, _CHANNELS)),
    "repeated heads": (RepeatedHeads, (2, 3, 4, 8)),
}


def _network(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    torch.manual_seed(0)
    kind, shape = NETWORKS[name]
    return kind().eval(), shape


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("name", NETWORKS)
def test_one_delegate(name: str, precision: str) -> None:
    network, shape = _network(name)
    # float16 has eleven bits
    rtol, atol = (2e-5, 2e-6) if precision == "fp32" else (2e-2, 2e-2)
    report = run_in_runtime(network, [(torch.randn(shape),)], None, {"precision": precision}, rtol, atol)
    assert len(report.delegates) == 1 and report.nodes_left == 0


@pytest.mark.parametrize("name", ["volume windows", "grids"])
def test_the_batch_may_vary(name: str) -> None:
    network, shape = _network(name)
    calls = [(torch.randn(batch, *shape[1:]),) for batch in (2, 1, 5)]
    report = run_in_runtime(network, calls, ({0: Dim("batch", min=1, max=6)},))
    assert len(report.delegates) == 1


class Shuffled(nn.Module):
    """A layer of windows of an image, as in SwinIR: seven dimensions, one of them of size 1."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1)
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x).permute(0, 2, 3, 1)
        b, h, w, c = y.shape
        y = y.view(b, 1, h // 4, 4, w // 4, 4, c).permute(0, 1, 2, 4, 3, 5, 6).reshape(-1, 16, c)
        y = self.layer(y).view(b, 1, h // 4, w // 4, 4, 4, c).permute(0, 1, 2, 4, 3, 5, 6)
        return self.last(y.reshape(b, h, w, c).permute(0, 3, 1, 2))


@pytest.mark.parametrize("kind", [Shuffled, VolumeWindows])
def test_quantized_values_of_many_dimensions(kind: type[nn.Module]) -> None:
    """The runtime refused such blobs, whose values had seven dimensions."""
    torch.manual_seed(0)
    x = torch.randn((1, 3, 8, 8) if kind is Shuffled else NETWORKS["volume windows"][1])
    exported = quantized(kind(), (x,), Settings()).methods["forward"]
    wanted = exported.module()(x)
    report, program = lowered_exported(exported)
    assert len(report.delegates) == 1 and report.nodes_left == 0
    (found,) = program.run([x])
    # the scale of the last layer is 1 / 256 of its range
    scale = (wanted.max() - wanted.min()) / 255
    assert (found - wanted).abs().max() <= 2.5 * scale
    assert wanted.abs().max() > 20 * scale
