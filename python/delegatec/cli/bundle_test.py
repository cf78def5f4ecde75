# SPDX-License-Identifier: Apache-2.0
"""`delegatec bundle`."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from delegatec.cli.main import main
from delegatec.report.manifest import SCHEMA_VERSION, FileInfo, Manifest, to_json


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """Two programs, which share weights, and a license."""
    found = ["bundle", f"--weights=models/foo.ptd={tmp_path / 'foo.ptd'}"]
    (tmp_path / "foo.ptd").write_bytes(b"weights")
    (tmp_path / "LICENSE").write_text("Do what you like.\n")
    for name in ("foo_portable", "foo_mps"):
        manifest = Manifest(
            SCHEMA_VERSION, "", f"//models:{name}", name[4:], {}, (), (), (), FileInfo(len(name), "", ())
        )
        (tmp_path / f"{name}.json").write_text(to_json(manifest))
        (tmp_path / f"{name}.pte").write_bytes(name.encode())
        found += [
            f"--program={tmp_path / name}.pte",
            f"--manifest={tmp_path / name}.json",
            f"--name=models/{name}.pte",
            "--uses=models/foo.ptd",
        ]
    return [*found, f"--license=licenses/LICENSE={tmp_path / 'LICENSE'}"]


def test_directory_and_zip_have_the_same_files(arguments: list[str], tmp_path: Path) -> None:
    folder, file = tmp_path / "bundle", tmp_path / "bundle.zip"
    assert main([*arguments, f"--directory={folder}", f"--zip={file}"]) == 0
    written = {
        str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
    with zipfile.ZipFile(file) as opened:
        assert {name: opened.read(name) for name in opened.namelist()} == written
        assert {entry.compress_type for entry in opened.infolist()} == {zipfile.ZIP_STORED}
        assert opened.testzip() is None
    assert sorted(written) == [
        "index.json",
        "licenses/LICENSE",
        "models/foo.ptd",
        "models/foo_mps.pte",
        "models/foo_portable.pte",
    ]
    again = tmp_path / "again.zip"
    assert main([*arguments, f"--zip={again}"]) == 0
    assert again.read_bytes() == file.read_bytes()


def test_index_has_sizes_and_digests(arguments: list[str], tmp_path: Path) -> None:
    assert main([*arguments, f"--directory={tmp_path / 'bundle'}"]) == 0
    index = json.loads((tmp_path / "bundle" / "index.json").read_text())
    assert [each["file"] for each in index["programs"]] == ["models/foo_mps.pte", "models/foo_portable.pte"]
    assert index["programs"][0] == {
        "file": "models/foo_mps.pte",
        "bytes": 7,
        "sha256": hashlib.sha256(b"foo_mps").hexdigest(),
        "label": "//models:foo_mps",
        "backend": "mps",
        "delegates": [],
        "options": {},
        "methods": [],
        "weights": "models/foo.ptd",
    }
    assert index["weights"] == [
        {"file": "models/foo.ptd", "bytes": 7, "sha256": hashlib.sha256(b"weights").hexdigest()}
    ]
    assert index["licenses"] == ["licenses/LICENSE"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "no output requested"),
        (["--zip=OUT", "--name=another.pte"], "one --manifest, --name and --uses for each --program"),
        (["--zip=OUT", "--license=models/foo_mps.pte=setup.cfg"], "have one path: models/foo_mps.pte"),
        (["--zip=OUT", "--license=index.json=setup.cfg"], "have one path: index.json"),
        (["--zip=OUT", "--license=LICENSE"], "is not PATH=FILE"),
        (["--zip=OUT", "--license=../LICENSE=setup.cfg"], "not a path in the bundle: '../LICENSE'"),
        (["--zip=OUT", "--license=/a/LICENSE=setup.cfg"], "not a path in the bundle: '/a/LICENSE'"),
    ],
)
def test_wrong_arguments(
    arguments: list[str],
    more: list[str],
    message: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "out.zip"
    assert main([*arguments, *(each.replace("OUT", str(output)) for each in more)]) == 2
    assert message in capfd.readouterr().err
    assert not output.exists()


def test_a_manifest_of_another_program(
    arguments: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = arguments.index(f"--program={tmp_path / 'foo_mps'}.pte")
    arguments[first + 1] = f"--manifest={tmp_path / 'foo_portable'}.json"
    assert main([*arguments, f"--zip={tmp_path / 'out.zip'}"]) == 2
    error = capfd.readouterr().err
    assert "the manifest of models/foo_mps.pte describes another program: a file of 12 bytes" in error


def test_weights_that_no_flag_provides(
    arguments: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    without = [each for each in arguments if not each.startswith("--weights")]
    assert main([*without, f"--zip={tmp_path / 'out.zip'}"]) == 2
    assert "the bundle lacks models/foo.ptd" in capfd.readouterr().err
