# SPDX-License-Identifier: Apache-2.0
"""Networks of sequences without attention over all positions."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as f


class Recurrent(nn.Module):
    """Layers of one of torch's recurrent kinds in both directions; the last state is a result, too."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.layers = getattr(nn, kind)(12, 16, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, 5)

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, object]:
        x, state = self.layers(features)
        return self.head(x), state


class ConvLSTM(nn.Module):
    """An LSTM whose gates are convolutions, over the images of a video ``[N, T, C, H, W]``."""

    def __init__(self, inputs: int = 3, channels: int = 8) -> None:
        super().__init__()
        self.channels = channels
        self.gates = nn.Conv2d(inputs + channels, 4 * channels, 3, padding=1)
        self.head = nn.Conv2d(channels, 1, 1)

    def forward(self, video: torch.Tensor) -> torch.Tensor:
        hidden = video.new_zeros(video.shape[0], self.channels, *video.shape[3:])
        cell = torch.zeros_like(hidden)
        results = []
        for image in video.unbind(1):
            into, forget, out, new = self.gates(torch.cat([image, hidden], 1)).chunk(4, 1)
            cell = forget.sigmoid() * cell + into.sigmoid() * new.tanh()
            hidden = out.sigmoid() * cell.tanh()
            results.append(self.head(hidden))
        return torch.stack(results, 1)


class TCN(nn.Module):
    """Causal dilated convolutions with weight norm, and a linear layer with spectral norm."""

    def __init__(self, channels: int = 6) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            nn.utils.parametrizations.weight_norm(
                nn.Conv1d(channels, channels, 3, dilation=2**index, padding=2 * 2**index)
            )
            for index in range(3)
        )
        self.head = nn.utils.parametrizations.spectral_norm(nn.Linear(channels, 3))

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        x = signal
        for index, convolution in enumerate(self.convolutions):
            x = torch.relu(torch.relu(convolution(x)[..., : -2 * 2**index]) + x)
        return self.head(x[..., -1])


class WaveNet(nn.Module):
    """Gated dilated convolutions with skips, and samples from a transposed convolution."""

    def __init__(self, channels: int = 16, depth: int = 4) -> None:
        super().__init__()
        self.into = nn.Conv1d(1, channels, 1)
        self.dilated = nn.ModuleList(
            nn.Conv1d(channels, 2 * channels, 2, dilation=2**index) for index in range(depth)
        )
        self.skips = nn.ModuleList(nn.Conv1d(channels, 24, 1) for _ in range(depth))
        self.residuals = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in range(depth))
        self.out = nn.Sequential(nn.ReLU(), nn.Conv1d(24, 8, 1), nn.ConvTranspose1d(8, 4, 8, 4, 2))

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        x, total = self.into(signal), torch.zeros(())
        for index, dilated in enumerate(self.dilated):
            value, gate = dilated(f.pad(x, (2**index, 0))).chunk(2, 1)
            y = torch.tanh(value) * torch.sigmoid(gate)
            total = total + self.skips[index](y)
            x = x + self.residuals[index](y)
        return self.out(total).log_softmax(1)


class LogMel(nn.Module):
    """The front end of a recognizer: spectra of windows, a bank of filters, decibels, a convolution."""

    def __init__(self, window: int = 64, bands: int = 10) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(window))
        self.bank = nn.Linear(window // 2 + 1, bands, bias=False)
        self.layers = nn.Conv1d(bands, 8, 3)

    def forward(self, signal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        size, step = len(self.window), len(self.window) // 4
        spectrum = torch.stft(signal, size, step, window=self.window, return_complex=True)
        power = self.bank(spectrum.abs().square().transpose(1, 2)).abs()
        log_power = power.clamp(min=1e-5).log10()
        log_power = torch.maximum(log_power, log_power.amax((1, 2), keepdim=True) - 8)
        energy = (signal.unfold(-1, size, step) * self.window).square().mean(-1)
        return self.layers((log_power + 4).transpose(1, 2) / 4), energy


class LinearAttention(nn.Module):
    """Retention: rotary positions as complex numbers, decay by distance, normalized by summed keys."""

    def __init__(self, channels: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.RMSNorm(channels)
        self.query, self.key, self.value, self.gate, self.project = (
            nn.Linear(channels, channels) for _ in range(5)
        )

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        batch, length, channels = features.shape
        size = channels // self.heads
        normed = self.norm(features)
        query, key, value = (
            layer(normed).view(batch, length, self.heads, size).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        positions = torch.arange(length)
        angles = positions[:, None] * 1e4 ** (-2 * torch.arange(size // 2) / size)
        turns = torch.polar(torch.ones(length, size // 2), angles)
        query, key = (f.elu(_turned(x, turns)) + 1 for x in (query, key))
        distance = positions[:, None] - positions
        decay = (1 - 2.0 ** (-5 - torch.arange(float(self.heads))))[:, None, None]
        weights = torch.where(distance >= 0, decay ** distance.clamp(min=0), 0.0)
        mixed = (query @ key.transpose(-1, -2) * weights) @ value
        mixed = mixed / ((query * key.cumsum(2)).sum(-1, keepdim=True) + 1e-3)
        mixed = mixed.transpose(1, 2).reshape(batch, length, channels)
        return features + self.project(mixed * f.silu(self.gate(normed)))


def _turned(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * turns).flatten(3)
