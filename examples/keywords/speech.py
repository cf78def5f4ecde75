# SPDX-License-Identifier: Apache-2.0
"""Spoken keywords, synthesized: a voice with formants and hiss for each sound, and noise. No recordings.

Clips differ in speaker (pitch, length of the vocal tract), speed, position, loudness and noise.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

RATE = 16000
SAMPLES = RATE
_HOP, _WINDOW, _MELS, COEFFICIENTS = 320, 640, 40, 10
FRAMES = (SAMPLES - _WINDOW) // _HOP + 1


class Sound(NamedTuple):
    """A sound: its formants in Hz, how much of it is voice and hiss, and its length in seconds."""

    formants: tuple[float, float, float]
    voice: float
    hiss: float
    length: float


_VOWELS = {
    "a": (750, 1200, 2500),
    "e": (530, 1850, 2500),
    "i": (280, 2250, 2900),
    "o": (500, 900, 2400),
    "u": (310, 870, 2250),
    "@": (500, 1500, 2500),
}
_SOUNDS = {
    **{name: Sound(formants, 1.0, 0.01, 0.14) for name, formants in _VOWELS.items()},
    "n": Sound((250, 1300, 2300), 0.35, 0.0, 0.09),
    "l": Sound((360, 1100, 2600), 0.5, 0.0, 0.08),
    "r": Sound((330, 1100, 1600), 0.5, 0.02, 0.08),
    "w": Sound((300, 650, 2200), 0.5, 0.0, 0.08),
    "y": Sound((280, 2200, 2900), 0.5, 0.02, 0.07),
    "s": Sound((5000, 6500, 7500), 0.0, 0.5, 0.13),
    "f": Sound((1500, 4000, 7000), 0.0, 0.25, 0.12),
    "t": Sound((3000, 4500, 6000), 0.0, 0.6, 0.04),
    "p": Sound((700, 1500, 2600), 0.0, 0.5, 0.04),
    "d": Sound((300, 1700, 2600), 0.5, 0.2, 0.04),
    "g": Sound((300, 2000, 2200), 0.5, 0.2, 0.04),
    "-": Sound((500, 1500, 2500), 0.0, 0.0, 0.04),
}
# Word -> its sounds.
WORDS = {
    "yes": "yes",
    "no": "no-u",
    "up": "@-p",
    "down": "daun",
    "left": "lef-t",
    "right": "rai-t",
    "on": "oan",
    "off": "of",
    "stop": "s-to-p",
    "go": "gou",
}


def clips(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Returns spectra of clips, and their words.

    Args:
        count: clips per word.
        seed: other seeds are other speakers.

    Returns:
        float32 `[count * words, 1, FRAMES, COEFFICIENTS]`, about -1 to 1, and int64 `[count * words]`.
    """
    generator = torch.Generator().manual_seed(seed)
    sounds = [[_SOUNDS[name] for name in word] for word in WORDS.values()]
    spoken = [speak(sequence, generator) for _ in range(count) for sequence in sounds]
    labels = torch.arange(len(sounds)).repeat(count)
    return features(torch.stack(spoken))[:, None], labels


def speak(sounds: list[Sound], generator: torch.Generator) -> Tensor:
    """Returns one clip of a random speaker: float32 `[SAMPLES]`."""

    def draw(low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand((), generator=generator))

    pitch, tract, speed = draw(90, 240), draw(0.85, 1.2), draw(0.8, 1.35)
    lengths = [int(sound.length * draw(0.8, 1.3) / speed * RATE) for sound in sounds]
    length = min(sum(lengths), SAMPLES - 1600)
    # Each sample's sound, with gliding transitions of 30 ms.
    index = torch.repeat_interleave(torch.arange(len(sounds)), torch.tensor(lengths))[:length]
    values = torch.tensor([[*(f * tract for f in s.formants), s.voice, s.hiss] for s in sounds])[index]
    values = torch.nn.functional.avg_pool1d(values.T[None], 481, 1, 240, count_include_pad=False)[0]
    formants, voice, hiss = values[:3], values[3], values[4]
    glide = torch.linspace(draw(0.95, 1.1), draw(0.85, 1.0), length)
    phase = torch.cumsum(2 * torch.pi * pitch * glide / RATE, 0)
    signal = torch.zeros(length)
    for harmonic in range(1, int(4000 / pitch)):
        signal += _envelope(harmonic * pitch * glide, formants) * torch.sin(harmonic * phase)
    noise = torch.randn(length, generator=generator)
    center = formants[1].clamp(max=7500)
    hissing = noise * torch.cos(2 * torch.pi * torch.cumsum(center / RATE, 0)) * hiss
    spoken = 0.3 * signal * voice + hissing
    start = int(draw(400, SAMPLES - length - 400))
    clip = torch.randn(SAMPLES, generator=generator) * draw(0.02, 0.25)
    clip[start : start + length] += spoken * draw(0.3, 1.0)
    return clip


def features(signal: Tensor) -> Tensor:
    """Returns mel cepstra, like those of a phone's keyword spotter.

    Args:
        signal: float32 `[..., SAMPLES]`.

    Returns:
        float32 `[..., FRAMES, COEFFICIENTS]`, about -1 to 1.
    """
    frames = signal.unfold(-1, _WINDOW, _HOP) * torch.hann_window(_WINDOW)
    power = torch.fft.rfft(frames, 1024).abs().square()
    mels = torch.log(power @ _mel_filters() + 1e-3)
    orders = torch.arange(COEFFICIENTS)[:, None] * (torch.arange(_MELS) + 0.5)
    cosines = torch.cos(torch.pi / _MELS * orders) * (2 / _MELS) ** 0.5
    return (mels @ cosines.T) / 16


def _envelope(frequency: Tensor, formants: Tensor) -> Tensor:
    widths = torch.tensor([80.0, 110.0, 160.0])[:, None]
    return (widths**2 / ((frequency - formants) ** 2 + widths**2)).sum(0)


def _mel_filters() -> Tensor:
    mels = torch.linspace(_mel(40.0), _mel(7600.0), _MELS + 2)
    edges = 700 * (torch.exp(mels / 1127) - 1)
    bins = torch.arange(513) * RATE / 1024
    rising = (bins[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins[:, None]) / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp(min=0)


def _mel(frequency: float) -> float:
    return 1127 * float(torch.log1p(torch.tensor(frequency / 700)))
