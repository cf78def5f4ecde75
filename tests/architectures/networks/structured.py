# SPDX-License-Identifier: Apache-2.0
"""Networks of graphs, points, tables and functions."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as f


class GraphAttention(nn.Module):
    """A graph convolution with a normalized adjacency matrix, then attention among neighbors."""

    def __init__(self, nodes: int = 9, channels: int = 16) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        neighbors = (torch.rand(nodes, nodes, generator=generator) > 0.6).float() + torch.eye(nodes)
        self.register_buffer("neighbors", neighbors)
        self.into, self.out = nn.Linear(6, channels), nn.Linear(channels, 4)
        self.sources, self.targets = (nn.Linear(channels, 1, bias=False) for _ in range(2))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        degrees = self.neighbors.sum(-1).rsqrt()
        x = torch.relu((degrees[:, None] * self.neighbors * degrees) @ self.into(features))
        scores = f.leaky_relu(self.sources(x) + self.targets(x).transpose(1, 2), 0.2)
        scores = scores.masked_fill(self.neighbors == 0, float("-inf")).softmax(-1)
        return self.out(scores @ x).log_softmax(-1)


class PointNet(nn.Module):
    """Turns a cloud of points by a matrix that it computes, and returns all distances."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 32, 1))
        self.turn = nn.Linear(32, 9)
        self.head = nn.Conv1d(3 + 32, 8, 1)

    def forward(self, points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.layers(points).max(-1)[0]
        matrix = self.turn(features).view(-1, 3, 3) + torch.eye(3)
        turned = torch.bmm(points.transpose(1, 2), matrix)
        wide = features[:, :, None].expand(-1, -1, points.shape[-1])
        return self.head(torch.cat([turned.transpose(1, 2), wide], 1)), torch.cdist(turned, turned)


class DLRM(nn.Module):
    """Recommendation: bags of embeddings, and the products of all pairs of features."""

    def __init__(self, tables: int = 3, channels: int = 8) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(20, channels, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(5, channels), nn.ReLU())
        pairs = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("pairs", pairs)
        self.top = nn.Sequential(nn.Linear(channels + pairs.shape[1], 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, dense: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        bottom = self.bottom(dense)
        features = torch.stack([bottom, *(table(ids[:, i]) for i, table in enumerate(self.tables))], 1)
        products = (features @ features.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([bottom, products], 1)).sigmoid()


class FourierOperator(nn.Module):
    """A layer of a Fourier neural operator: complex weights for the lowest frequencies."""

    def __init__(self, channels: int = 8, modes: int = 5) -> None:
        super().__init__()
        self.modes = modes
        self.into = nn.Conv1d(2, channels, 1)
        self.real, self.imaginary = (nn.Parameter(torch.randn(channels, channels, modes)) for _ in range(2))
        self.skip = nn.Conv1d(channels, channels, 1)

    def forward(self, function: torch.Tensor) -> torch.Tensor:
        x = self.into(function)
        frequencies = torch.fft.rfft(x)
        weights = torch.complex(self.real, self.imaginary)
        low = torch.einsum("bix,iox->box", frequencies[..., : self.modes], weights)
        low = f.pad(low, (0, frequencies.shape[-1] - self.modes))
        return f.gelu(torch.fft.irfft(low, n=x.shape[-1]) + self.skip(x))
