# SPDX-License-Identifier: Apache-2.0
"""Weights are copied from the `.pt2` to the outputs: the same bytes as from memory."""

from __future__ import annotations

import io
import zlib
from pathlib import Path

import pytest
import torch
from torch.export import export

from delegatec.cli.main import run_verb
from delegatec.diagnostics import DelegatecError
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


@pytest.mark.parametrize("kind", ["portable", "mps", "ptd"])
def test_postponed_checksums_are_those_of_the_copy(
    path: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, file = archive.load(path, postpone=True), io.BytesIO()
    if kind == "ptd":
        write_flat_tensors(weights_of(model.methods), file, sources=[model.file])
    else:
        found = write_program(lower(model.methods, kind).emitted, file, [model.file])
        content = file.getvalue()
        assert len(found) == 2
        for (offset, size), checksum in found.items():
            assert checksum == zlib.crc32(content[offset : offset + size])
    # The matrices are not read again.
    monkeypatch.setattr(MappedFile, "read_into", None)
    model.check()


@pytest.fixture
def damaged(path: str, tmp_path: Path) -> str:
    weight = archive.load(path).methods["forward"].state_dict["0.weight"].numpy().tobytes()
    content = bytearray(Path(path).read_bytes())
    content[content.index(weight) + 70_000] ^= 1
    (tmp_path / "damaged.pt2").write_bytes(content)
    return str(tmp_path / "damaged.pt2")


@pytest.mark.parametrize("copied", [False, True])
def test_postponed_checksums_find_damage(damaged: str, copied: bool) -> None:
    with pytest.raises(DelegatecError, match="wrong checksum"):
        archive.load(damaged)
    model = archive.load(damaged, postpone=True)
    if copied:
        write_program(lower(model.methods).emitted, io.BytesIO(), [model.file])
    for _ in range(2):
        with pytest.raises(DelegatecError, match="weight_0 is damaged: wrong checksum"):
            model.check()


def test_damage_explains_errors(path: str, damaged: str) -> None:
    for each, message in ((path, "of the scope"), (damaged, "wrong checksum")):
        model = archive.load(each, postpone=True)
        with pytest.raises(Exception, match=message), model.checked():
            raise ValueError("of the scope")
    with pytest.raises(DelegatecError, match="wrong checksum"), model.checked():
        pass


@pytest.mark.parametrize("verb", ["lower", "weights"])
def test_damaged_weights_are_not_written(
    verb: str, damaged: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = ["--pte=out.pte", "--manifest=out.json"] if verb == "lower" else ["--ptd=out.ptd"]
    flags = [f"{each.replace('=', f'={tmp_path}/')}" for each in outputs]
    assert run_verb([verb, f"--program={damaged}", *flags]) == 1
    assert "DC120" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["damaged.pt2"]


def test_torch_loads_archives_without_this_file(path: str) -> None:
    file = io.BytesIO()
    write_program(lower({"forward": torch.export.load(Path(path))}).emitted, file)
    assert len(file.getvalue()) == len(written(path, "portable", from_file=True))
