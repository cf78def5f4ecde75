# SPDX-License-Identifier: Apache-2.0
"""This version reads and runs files of each release, and has its names: docs/stability.md."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from interface import Interface, interface
from record import INTERFACE, PROGRAMS

from delegatec import inspect
from delegatec.backends import builtin_backends
from delegatec.cli.main import run_verb
from delegatec.frontend.samples_file import read_samples
from delegatec.report.manifest import from_json
from delegatec.verify import Verification, verify_program
from delegatec.version import VERSION

HERE = Path("tests/compatibility")
RELEASES = sorted(path.name for path in HERE.iterdir() if (path / INTERFACE).exists())

# Names that were removed as docs/stability.md says: (kind, name or NAME.ATTRIBUTE) -> the version.
REMOVED: dict[tuple[str, str], str] = {}

# Of quantized programs; the one of 0.1.0 has 30 dB.
_LEAST_SNR_DB = {"int8": 20.0}


def _verified(folder: Path, name: str) -> Verification:
    recorded = read_samples(str(folder / ("counter" if name == "state" else "net")) + ".samples.safetensors")
    return verify_program(
        folder / f"{name}.pte",
        {},
        builtin_backends(),
        ptd=folder / "shared.ptd" if name == "shared" else None,
        constant_methods={"size": 3} if name == "state" else None,
        recorded=recorded,
        minimum_snr=_LEAST_SNR_DB.get(name),
        atol=1e-4,
        rtol=1e-4,
    )


def test_this_version_is_recorded() -> None:
    assert VERSION in RELEASES, "bazel run //tests/compatibility:record"


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_compute_what_was_recorded(release: str, name: str) -> None:
    result = _verified(HERE / release, name)
    assert result.passed, result.table()
    assert len(result.results) >= 2
    for each in result.results:
        assert each.comparison is None or not each.comparison.vacuous


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_documents_are_read(
    release: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = HERE / release
    manifest = from_json((folder / f"{name}.json").read_text(encoding="utf-8"))
    contents = inspect(folder / f"{name}.pte")
    assert (manifest.file.bytes, manifest.compiler) == (contents.bytes, f"delegatec {release}")
    named = [*manifest.methods, *manifest.constant_methods]
    assert [each.name for each in named] == [each.name for each in contents.methods]
    record = f"golden --manifest={folder}/{name}.json --golden={folder}/{name}.json.golden"
    debug = f"{folder}/{name}.debug.json"
    report = f"report --manifest={folder}/{name}.json --debug={debug} --pte={folder}/{name}.pte"
    for command in (record, f"inspect {folder}/{name}.pte --lines --blobs --debug-map={debug}"):
        assert run_verb(command.split()) == 0, command
    assert "record.py:" in capsys.readouterr().out
    assert run_verb([*report.split(), f"--report={tmp_path}/report.html"]) == 0
    assert name in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("release", RELEASES)
def test_names_are_kept(release: str) -> None:
    before = json.loads((HERE / release / INTERFACE).read_text(encoding="utf-8"))
    missing = {*_missing(before, interface(Path("docs/rules.md")))}
    assert missing - {*REMOVED} == set()
    assert len(before["codes"]) > 100 and len(before["rules"]) > 30 and len(before["python"]) > 15


def _missing(before: Interface, now: Interface) -> list[tuple[str, str]]:
    found = []
    for kind, names in before.items():
        for name, attributes in names.items():
            if name not in now[kind]:
                found.append((kind, name))
                continue
            found += [(kind, f"{name}.{each}") for each in attributes if each not in now[kind][name]]
    return found


def test_missing_names_are_found() -> None:
    before: Interface = {"rules": {"kept": ["a", "b"], "gone": []}, "codes": {"DC001": []}}
    assert _missing(before, before) == []
    assert _missing(before, {"rules": {"kept": ["b"]}, "codes": {"DC001": [], "DC002": []}}) == [
        ("rules", "kept.a"),
        ("rules", "gone"),
    ]


def test_other_results_are_found(tmp_path: Path) -> None:
    """The samples of another model fail, so the comparison is one."""
    folder = tmp_path / "release"
    shutil.copytree(HERE / RELEASES[-1], folder)
    content = bytearray((folder / "portable.pte").read_bytes())
    end = inspect(folder / "portable.pte").parts[-1]
    content[end.offset + 3] ^= 0x40  # the exponent of a weight
    (folder / "portable.pte").write_bytes(content)
    assert not _verified(folder, "portable").passed
