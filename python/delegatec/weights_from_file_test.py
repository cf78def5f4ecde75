# SPDX-License-Identifier: Apache-2.0
"""Weights are copied from the `.pt2` to the outputs: the same bytes as from memory."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from torch.export import export

from delegatec.files import MappedFile
from delegatec.frontend import archive
from delegatec.lowering import lower
from delegatec.program import weights_of, write_flat_tensors, write_program

WIDTH = 300


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("model") / "model.pt2")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH))
    archive.save({"forward": export(model, (torch.rand(1, WIDTH),))}, path)
    return path


def written(path: str, kind: str, from_file: bool) -> bytes:
    model, file = archive.load(path), io.BytesIO()
    sources = [model.file] if from_file else []
    if kind == "ptd":
        write_flat_tensors(weights_of(model.methods), file, sources=sources)
    else:
        write_program(lower(model.methods, kind).emitted, file, sources)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["portable", "mps", "ptd"])
def test_weights_are_read_from_the_file(path: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = written(path, kind, from_file=False)
    read: list[int] = []
    read_into = MappedFile.read_into

    def counting(self: MappedFile, buffer: memoryview, offset: int) -> None:
        read.append(len(buffer))
        read_into(self, buffer, offset)

    monkeypatch.setattr(MappedFile, "read_into", counting)
    archive.load(path)
    checksums = sum(read)
    read.clear()
    assert written(path, kind, from_file=True) == expected
    # both matrices; the biases are too small for it
    assert sum(read) - checksums == 2 * WIDTH * WIDTH * 4
    weight = archive.load(path).methods["forward"].state_dict["0.weight"]
    assert weight.numpy().tobytes() in expected


def test_torch_loads_archives_without_this_file(path: str) -> None:
    file = io.BytesIO()
    write_program(lower({"forward": torch.export.load(Path(path))}).emitted, file)
    assert len(file.getvalue()) == len(written(path, "portable", from_file=True))
