# SPDX-License-Identifier: Apache-2.0
"""The archive of the compiler's sources: Python imports it, and its bytes follow from its contents."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from runfiles import Runfiles

_SOURCES = {
    "src/package/__init__.py": "",
    "src/package/module.py": "def fail() -> None:\n    raise ValueError('here')\n",
    "src/package/data.txt": "text",
    # Without `__init__.py`, like the generated schemas.
    "out/names/generated.py": "VALUE = {'b', 'a', 'c'} & frozenset(('a', 'b'))\n",
}


def _archive(folder: Path) -> Path:
    runfiles = Runfiles.Create()
    assert runfiles is not None
    program = runfiles.Rlocation("rules_delegate/rules/private/archive_sources.py")
    assert program is not None
    for name, text in _SOURCES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(
        [sys.executable, program, "archive.zip", "--root=src", "--root=out", *_SOURCES],
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        check=True,
    )
    return folder / "archive.zip"


def test_modules_are_imported_from_bytecode(tmp_path: Path) -> None:
    archive = _archive(tmp_path)
    code = (
        "import importlib.resources, names.generated, package.module\n"
        "assert names.generated.VALUE == {'a', 'b'}\n"
        "assert package.module.__file__.endswith('archive.zip/package/module.pyc')\n"
        "assert importlib.resources.files('package').joinpath('data.txt').read_text() == 'text'\n"
        "package.module.fail()\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 'File "<archive>/package/module.py", line 2, in fail' in done.stderr, done.stderr
    assert done.stderr.rstrip().endswith("ValueError: here")


def test_bytes_do_not_depend_on_the_directory_or_the_time(tmp_path: Path) -> None:
    first = _archive(tmp_path / "first")
    for path in first.parent.rglob("*.py"):
        os.utime(path, (1, 1))
    second = _archive(tmp_path / "some" / "other")
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as opened:
        assert {entry.date_time for entry in opened.infolist()} == {(1980, 1, 1, 0, 0, 0)}
