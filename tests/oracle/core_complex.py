# SPDX-License-Identifier: Apache-2.0
"""Complex numbers between real inputs and outputs: rotations, spectra, signals."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn
from torch.export import Dim

from tests.oracle.core_case import Case, noise, of_function, of_module

_WINDOW: Final = torch.hann_window(16)


class Rotary(nn.Module):
    """Attention's positions as rotations, by a complex buffer, as Llama's reference code has them."""

    freqs_cis: Tensor

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(16), 10000 ** (-torch.arange(0, 8, 2) / 8))
        self.register_buffer("freqs_cis", torch.polar(torch.ones_like(angles), angles), persistent=False)

    def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, ...]:
        def turned(x: Tensor) -> Tensor:
            pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
            freqs = self.freqs_cis[: x.shape[1]].view(1, x.shape[1], 1, pairs.shape[-1])
            return torch.view_as_real(pairs * freqs).flatten(3).type_as(x)

        return turned(q), turned(k)


def _power(x: Tensor) -> Tensor:
    """A spectrogram in decibels, the front end of an audio model."""
    spectrum = torch.stft(x, 16, 4, window=_WINDOW, return_complex=True)
    return torch.log10(spectrum.abs().square().clamp(min=1e-3))


def _denoised(x: Tensor) -> Tensor:
    """There and back, with a mask in between."""
    spectrum = torch.stft(x, 16, 4, window=_WINDOW, return_complex=True)
    mask = torch.sigmoid(spectrum.abs())
    return torch.istft(spectrum * mask, 16, 4, window=_WINDOW, length=x.shape[-1])


def _correlation(x: Tensor, y: Tensor) -> Tensor:
    return torch.fft.irfft(torch.fft.rfft(x, norm="ortho") * torch.fft.rfft(y, norm="ortho").conj(), n=12)


def _arithmetic(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    z, w = torch.complex(x, y), torch.polar(y.abs() + 1, x)
    parts = torch.view_as_real(torch.cat([z * w, z / w, (z + 1j).conj() - 2 * w], 1))
    return parts, z.abs(), w.angle(), torch.where(x > 0, z, w).imag, (z @ w.mT).sum(-1).real


class _Branches(nn.Module):
    """Transforms in the bodies of a branch."""

    def forward(self, x: Tensor) -> Tensor:
        def yes(x: Tensor) -> Tensor:
            return torch.fft.fft2(x, norm="ortho").real.contiguous()

        def no(x: Tensor) -> Tensor:
            return torch.fft.ifft(x, dim=-2).abs().contiguous()

        result: Tensor = torch.cond(x.sum() > 0, yes, no, (x,))
        return result


COMPLEX: Final[dict[str, Case]] = {
    "rotary": of_module(Rotary, noise(2, 5, 3, 8), noise(2, 5, 1, 8, seed=1)),
    "rotary, dynamic": Case(
        Rotary,
        [(noise(2, n, 3, 8), noise(2, n, 1, 8, seed=1)) for n in (5, 9)],
        dynamic_shapes={name: {1: Dim("n", max=16)} for name in ("q", "k")},
    ),
    "fnet": of_function(lambda x: torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real, noise(2, 6, 8)),
    "rfft2": of_function(lambda x: torch.view_as_real(torch.fft.rfft2(x, norm="ortho")), noise(2, 7, 8)),
    "correlation": of_function(_correlation, noise(2, 12), noise(2, 12, seed=1)),
    "power spectrogram": of_function(_power, noise(2, 64)),
    "there and back": of_function(_denoised, noise(2, 62)),
    "arithmetic": of_function(_arithmetic, noise(2, 3, 4), noise(2, 3, 4, seed=1)),
    "branches": Case(_Branches, [(noise(3, 4).abs(),), (-noise(3, 4).abs(),)]),
}
