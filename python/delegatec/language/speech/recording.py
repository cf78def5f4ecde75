# SPDX-License-Identifier: Apache-2.0
"""Recordings: files of sound, as a program takes them."""

from __future__ import annotations

import os
import wave
from typing import Final

import torch
from torch import Tensor

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import first_line
from delegatec.files import HEAD_BYTES, kind_of_file

_BYTES: Final = 2
_EXPECTED: Final = "a .wav file of 16-bit PCM, with one channel"


def read_recording(path: str, sampling_rate: int) -> Tensor:
    """Returns the samples of a .wav file, float32 [samples], from -1 to 1.

    Args:
        path: the file.
        sampling_rate: that of the model.

    Raises:
        DelegatecError: DC504, it is another file, or has another rate, several channels, or no samples.
    """
    try:
        with wave.open(path, "rb") as file:
            rate, channels, width = file.getframerate(), file.getnchannels(), file.getsampwidth()
            data = file.readframes(file.getnframes())
    except (wave.Error, EOFError, RuntimeError) as error:
        # RuntimeError: a part of the file goes on after its end.
        with open(path, "rb") as head:
            begin = head.read(HEAD_BYTES)
        reason = first_line(error) if begin[:4] == b"RIFF" else kind_of_file(begin)
        raise _problem(path, f"cannot be read: {reason or 'it ends early'}", "convert it") from error
    if width != _BYTES or channels != 1:
        found = f"has {channels} channels of {8 * width} bits"
        raise _problem(path, found, "convert it, such as by ffmpeg -ac 1 -c:a pcm_s16le")
    if rate != sampling_rate:
        raise _problem(
            path,
            f"has a sampling rate of {rate} Hz",
            f"convert it, such as by ffmpeg -ar {sampling_rate}",
            f"{sampling_rate} Hz, the sampling rate of the model",
        )
    if len(data) < _BYTES:
        raise _problem(path, "has no samples", "record some sound", "1 or more")
    if len(data) % _BYTES:
        raise _problem(path, "ends inside a sample", "record or copy it again")
    return torch.frombuffer(bytearray(data), dtype=torch.int16).float() / 2**15


def check_length(name: str, waveform: Tensor, least: int, most: int, sampling_rate: int) -> Diagnostic | None:
    """Returns DC504 for a recording that a program does not take, else None."""
    count = len(waveform)
    if least <= count <= most:
        return None
    found = f"{name} has {count} samples, {count / sampling_rate:.2f} seconds"
    expected = f"{least} to {most} samples, up to {most / sampling_rate:g} seconds"
    help = "cut it into parts" if count > most else "add silence"
    return Diagnostic("DC504", found, expected=expected, help=help)


def _problem(path: str, text: str, help: str, expected: str = _EXPECTED) -> DelegatecError:
    problem = Diagnostic("DC504", f"{os.path.basename(path)} {text}", expected=expected, help=help)
    return DelegatecError([problem])
