# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from delegatec.diagnostics import DelegatecError
from delegatec.frontend.samples_file import read_samples, save_samples, stored_samples
from delegatec.samples.recorded import RecordedCall, RecordedSamples

NAN = float("nan")


def _samples() -> RecordedSamples:
    image = torch.rand(1, 3, 4, 5).to(memory_format=torch.channels_last)
    inputs = (image, 3, 0.1, "mode", None, True, torch.tensor([1, 2], dtype=torch.int8))
    outputs = (
        ("['y']", torch.tensor([NAN, 1.0], dtype=torch.bfloat16)),
        ("[0]", torch.zeros(0, 4)),
        ("", 2.5),
    )
    first = RecordedCall("forward", "example", inputs, outputs, {6: torch.tensor([5, 6], dtype=torch.int8)})
    return RecordedSamples((first, RecordedCall("encode", "seed 1 (input 0: [2])", (), ())))


def _text(samples: RecordedSamples) -> str:
    return repr(
        [(call.method, call.name, call.inputs, call.outputs, dict(call.written)) for call in samples.calls]
    )


def test_round_trip(tmp_path: Path) -> None:
    path, samples = tmp_path / "a.safetensors", _samples()
    save_samples(samples, str(path))
    read = read_samples(str(path))
    assert _text(read) == _text(samples)
    assert read.calls[0].inputs[0].is_contiguous(memory_format=torch.channels_last)


def test_same_bytes(tmp_path: Path) -> None:
    samples = _samples()
    for name in "ab":
        save_samples(samples, str(tmp_path / name))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_size_is_bounded() -> None:
    call = RecordedCall("forward", "example", (torch.zeros(10 * 2**20),), ())
    assert len(stored_samples(RecordedSamples((call, call, call))).calls) == 1


@pytest.mark.parametrize("content", [b"", b"no file", b"\xff" * 100])
def test_damaged_files(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.samples.safetensors").write_bytes(content)
    with pytest.raises(DelegatecError, match="DC131"):
        read_samples(str(tmp_path / "a.samples.safetensors"))


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"0": {"none": true}}',
        '{"0": {"dict": []}}',
        '{"0": {"tensor": "missing"}}',
        '{"0": "\ud800"}',
    ],
)
def test_other_descriptions(text: str, tmp_path: Path) -> None:
    path = str(tmp_path / "a.safetensors")
    try:
        save_file({"x": torch.zeros(1)}, path, {"delegatec_samples": text})
    except UnicodeEncodeError:
        pytest.skip("safetensors writes valid Unicode only")
    with pytest.raises(DelegatecError, match="DC131"):
        read_samples(path)


def test_another_file(tmp_path: Path) -> None:
    save_file({"x": torch.zeros(1)}, str(tmp_path / "a.safetensors"))
    with pytest.raises(DelegatecError, match="it has no calls"):
        read_samples(str(tmp_path / "a.safetensors"))
