# SPDX-License-Identifier: Apache-2.0
"""The log-mel spectrogram of Whisper, as a module: convolutions that delegates run."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class LogMelSpectrogram(nn.Module):
    """The features of transformers' `WhisperFeatureExtractor`, of a window of fixed length.

    The Fourier transforms of all frames are one convolution. Hops and frames consist of blocks of samples,
    which are its channels: a convolution over single samples would be slow.

    Args:
        extractor: the feature extractor of transformers.
    """

    transform: Tensor
    filters: Tensor

    def __init__(self, extractor: Any) -> None:
        super().__init__()
        size: int = extractor.n_fft
        self.samples: int = extractor.n_samples
        self.block = math.gcd(extractor.hop_length, size)
        self.hop: int = extractor.hop_length // self.block
        self.bins = size // 2 + 1
        self.margins = (
            size // 2,
            (extractor.nb_max_frames - 1) * extractor.hop_length - self.samples + size // 2,
        )
        angles = torch.outer(torch.arange(self.bins), torch.arange(size)).remainder(size) * (
            2 * math.pi / size
        )
        waves = torch.cat([angles.double().cos(), angles.double().sin()])
        transform = waves * torch.hann_window(size, dtype=torch.float64)
        blocks = transform.view(2 * self.bins, -1, self.block).transpose(1, 2)
        self.register_buffer("transform", blocks.float().contiguous(), persistent=False)
        filters = torch.from_numpy(extractor.mel_filters).float().T[:, :, None]
        self.register_buffer("filters", filters.contiguous(), persistent=False)

    def forward(self, waveform: Tensor) -> Tensor:
        """Returns the features of a waveform, float32 [1, mel bins, frames].

        Args:
            waveform: float32 [1, 1, samples], of which there are at most `samples`; silence follows.
        """
        silence = self.samples - waveform.shape[2]
        signal = functional.pad(functional.pad(waveform, (0, silence)), self.margins, "reflect")
        blocks = signal.view(1, -1, self.block).transpose(1, 2)
        parts = functional.conv1d(blocks, self.transform, stride=self.hop).square()
        power = parts[:, : self.bins] + parts[:, self.bins :]
        mel = functional.conv1d(power, self.filters).clamp(min=1e-10).log10()
        return (torch.maximum(mel, mel.amax() - 8.0) + 4.0) / 4.0
