# SPDX-License-Identifier: Apache-2.0
"""The script that adds a row to a workspace's table of Python, torch and platforms, without pip."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path("third_party/python").absolute()


def _script(name: str) -> ModuleType:
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    return importlib.import_module(name)


# It has no wheels of torchvision.
_RESOLVER = """\
#!/bin/sh
for argument; do
    case $argument in --folder=*) folder=${argument#--folder=} ;; esac
    site=$argument
done
case $site in
    torchvision | $MISSING) echo "$site: no wheels" >&2; exit 1 ;;
    *) echo "# $site" > "$folder/$site.lock.txt" ;;
esac
"""


def test_a_row_of_a_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_row = _script("add_row")
    python = tmp_path / "python"
    python.write_text(_RESOLVER)
    python.chmod(0o755)
    monkeypatch.setattr(add_row, "python_with_pip", lambda: str(python))
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    table, folder = tmp_path / "own/rows.json", tmp_path / "own/rows/3.12-2.14.0-linux_x86_64"
    options = ["--python=3.12", "--torch=2.14.0", "--platform=linux_x86_64", "--table=own/rows.json"]
    monkeypatch.setattr(sys, "argv", ["add_row", *options])

    # Without the compiler, nothing is written.
    monkeypatch.setenv("MISSING", "compiler")
    assert add_row.main() == 1 and not (tmp_path / "own").exists()
    monkeypatch.setenv("MISSING", "vela")
    assert add_row.main() == 0
    printed = capsys.readouterr()
    assert "no lock of vela: no wheels\n" in printed.err
    assert 'repositories.row(name = "3.12-2.14.0-linux_x86_64", rows = "//own:rows.json")' in printed.out
    (row,) = json.loads(table.read_text())["rows"]
    sites = set(_script("lock").RULES_SITES) - {"torchvision", "vela"}
    assert {*row.pop("locked")} == sites == {path.name.removesuffix(".lock.txt") for path in folder.iterdir()}
    assert row == {
        "python": "3.12",
        "torch": "2.14.0",
        "platform": "linux_x86_64",
        "interpreter": "host",
        "locks": "rows/3.12-2.14.0-linux_x86_64",
    }

    # The table shows a new lock, and a lock of which there are no wheels any more is removed.
    monkeypatch.setenv("MISSING", "timm")
    assert add_row.main() == 0
    (row,) = json.loads(table.read_text())["rows"]
    assert "vela" in row["locked"] and "timm" not in row["locked"]
    assert not (folder / "timm.lock.txt").exists()


@pytest.mark.parametrize(
    ("option", "table", "problem"),
    [
        ("--python=3.13.1", "", "3.13.1: expected two numbers, such as 3.13"),
        ("--torch=2.13.0+cpu", "", "2.13.0+cpu: expected three numbers, such as 2.13.0"),
        ("--python=3.13", "rows", "rows.json: not JSON: "),
        ("--python=3.13", "[]", "rows.json: not a table of rows"),
    ],
)
def test_mistakes_of_a_row(
    option: str,
    table: str,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if table:
        (tmp_path / "rows.json").write_text(table)
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    options = ["--python=3.13", "--torch=2.13.0", "--platform=linux_x86_64", "--table=rows.json", option]
    monkeypatch.setattr(sys, "argv", ["add_row", *options])
    with pytest.raises(SystemExit) as raised:
        _script("add_row").main()
    assert problem in f"{raised.value.code}{capsys.readouterr().err}"


def test_a_site_without_the_one_below(tmp_path: Path) -> None:
    lock = _script("lock")
    with pytest.raises(lock.UnresolvedError, match="needs compiler, which has no lock"):
        lock.lock("timm", _script("rows").first_row(), tmp_path)
