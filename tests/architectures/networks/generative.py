# SPDX-License-Identifier: Apache-2.0
"""Networks that make images."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as f

from tests.architectures.networks.blocks import join_heads, split_heads


class ModulatedConvolution(nn.Module):
    """A layer of StyleGAN 2: the filters of each image depend on its style, and run as groups."""

    def __init__(self, inputs: int = 6, outputs: int = 8, style: int = 5) -> None:
        super().__init__()
        self.filters = nn.Parameter(torch.randn(outputs, inputs, 3, 3))
        self.mapping = nn.Sequential(nn.Linear(style, style), nn.LeakyReLU(0.2), nn.Linear(style, inputs))

    def forward(self, pixels: torch.Tensor, style: torch.Tensor) -> torch.Tensor:
        batch, _, rows, columns = pixels.shape
        style = style * (style.square().mean(1, keepdim=True) + 1e-8).rsqrt()
        filters = self.filters * (self.mapping(style) + 1)[:, None, :, None, None]
        filters = filters * (filters.square().sum((2, 3, 4), keepdim=True) + 1e-8).rsqrt()
        x = f.conv2d(pixels.reshape(1, -1, rows, columns), filters.flatten(0, 1), padding=1, groups=batch)
        x = x.reshape(batch, -1, rows, columns)
        return f.leaky_relu(f.interpolate(x, scale_factor=2, mode="bilinear"), 0.2)


class DiT(nn.Module):
    """A diffusion transformer: norms are shifted, scaled and gated by the time and the class."""

    def __init__(self, channels: int = 32, waves: int = 8) -> None:
        super().__init__()
        self.waves = waves
        self.patches = nn.Conv2d(4, channels, 2, 2)
        self.time = nn.Sequential(nn.Linear(2 * waves, channels), nn.SiLU(), nn.Linear(channels, channels))
        self.label = nn.Embedding(11, channels)
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(channels, 6 * channels))
        self.norm = nn.LayerNorm(channels, elementwise_affine=False, eps=1e-6)
        self.qkv, self.project = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
        self.mlp = nn.Sequential(
            nn.Linear(channels, 4 * channels), nn.GELU(approximate="tanh"), nn.Linear(4 * channels, channels)
        )
        self.head = nn.Linear(channels, 2 * 2 * 8)

    def forward(self, latents: torch.Tensor, time: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        batch, _, rows, columns = latents.shape
        rates = torch.exp(-math.log(1e4) * torch.arange(self.waves) / self.waves)
        angles = time[:, None].float() * rates
        condition = self.time(torch.cat([angles.cos(), angles.sin()], -1)) + self.label(label)
        shift, scale, gate, shift_2, scale_2, gate_2 = self.modulation(condition)[:, None].chunk(6, -1)
        x = self.patches(latents).flatten(2).transpose(1, 2)
        parts = self.qkv(self.norm(x) * (1 + scale) + shift).chunk(3, -1)
        query, key, value = (split_heads(part, 4) for part in parts)
        x = x + gate * self.project(join_heads(f.scaled_dot_product_attention(query, key, value)))
        x = self.head(x + gate_2 * self.mlp(self.norm(x) * (1 + scale_2) + shift_2))
        x = x.reshape(batch, rows // 2, columns // 2, 2, 2, 8)
        return torch.einsum("nhwpqc->nchpwq", x).reshape(batch, 8, rows, columns)


class VAE(nn.Module):
    """An autoencoder of images: group norm, attention of all pixels, a sample, transposed convolutions."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.encoder = nn.Conv2d(3, channels, 3, 2, 1)
        self.norm = nn.GroupNorm(8, channels)
        self.query, self.key, self.value = (nn.Conv2d(channels, channels, 1) for _ in range(3))
        self.moments = nn.Conv2d(channels, 2 * channels, 1)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(channels, 8, 3, 2, 1, output_padding=1, groups=2),
            nn.Mish(),
            nn.ReflectionPad2d(1),
            nn.Conv2d(8, 8, 3),
            nn.InstanceNorm2d(8, affine=True),
            nn.Conv2d(8, 3, 3, padding=1, padding_mode="replicate"),
            nn.Tanh(),
        )

    def forward(self, pixels: torch.Tensor, normal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.encoder(pixels)
        query, key, value = (part(self.norm(x)).flatten(2) for part in (self.query, self.key, self.value))
        scores = torch.bmm(query.transpose(1, 2), key).mul(x.shape[1] ** -0.5).softmax(2)
        x = x + torch.bmm(value, scores.transpose(1, 2)).view(x.shape)
        mean, variance = self.moments(f.silu(x)).chunk(2, 1)
        variance = variance.clamp(-30, 20)
        sample = mean + normal * torch.exp(0.5 * variance)
        divergence = -0.5 * (1 + variance - mean.square() - variance.exp()).sum((1, 2, 3))
        return self.decoder(sample), divergence


class NeRF(nn.Module):
    """Colors and depths of rays: positional encoding, densities, and transmittance."""

    def __init__(self, waves: int = 4) -> None:
        super().__init__()
        self.waves = waves
        self.layers = nn.Sequential(nn.Linear(3 * (1 + 2 * waves), 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(
        self, origins: torch.Tensor, directions: torch.Tensor, times: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        points = origins[:, None] + directions[:, None] * times[..., None]
        angles = (points[..., None] * 2.0 ** torch.arange(self.waves)).flatten(-2)
        found = self.layers(torch.cat([points, angles.sin(), angles.cos()], -1))
        colors, density = found[..., :3].sigmoid(), f.softplus(found[..., 3])
        lengths = torch.cat([times[:, 1:] - times[:, :-1], torch.full_like(times[:, :1], 100.0)], -1)
        opacity = 1 - torch.exp(-density * lengths)
        passed = torch.cat([torch.ones_like(opacity[:, :1]), 1 - opacity + 1e-5], -1).cumprod(-1)
        weights = opacity * passed[:, :-1]
        return (weights[..., None] * colors).sum(1), (weights * times).sum(-1)
