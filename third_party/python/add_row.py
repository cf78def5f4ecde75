# SPDX-License-Identifier: Apache-2.0
"""Adds a row to a table of Python, torch and platforms: resolves the locks of its wheels.

Usage: bazel run //third_party/python:add_row -- --python=3.13 --torch=2.13.0 --platform=linux_aarch64

In another workspace, `bazel run @rules_delegate//third_party/python:add_row` makes a table of the workspace,
which its WORKSPACE or MODULE.bazel file names. The host's pip resolves.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from lock import RULES_SITES, SITES
from rows import TABLE, row_of

_HERE: Final = Path(__file__).parent
# As in host.bzl. The build's Python has no pip.
_PYTHONS: Final = ("python3.11", "/usr/bin/python3.11", "python3")
_USE: Final = """To use it, in the WORKSPACE file:
    rules_delegate_repositories(row = "{name}", rows = "//{package}:{table}")
or in MODULE.bazel, after use_extension("@rules_delegate//rules:extensions.bzl", "repositories"):
    repositories.row(name = "{name}", rows = "//{package}:{table}")
or once: --repo_env=DELEGATEC_ROW={name}"""


def python_with_pip() -> str:
    """Returns a Python of the host that has pip.

    Raises:
        SystemExit: there is none.
    """
    named = os.environ.get("DELEGATEC_PYTHON")
    for name in (named,) if named else _PYTHONS:
        path = shutil.which(name)
        if (
            path
            and subprocess.run([path, "-c", "import pip"], capture_output=True, check=False).returncode == 0
        ):
            return path
    sys.exit(f"error DC010: none of {named or ', '.join(_PYTHONS)} has pip")


def resolve_locks(
    entry: dict[str, Any],
    platform: dict[str, Any],
    folder: Path,
    python: str,
    torch_sha256: str,
    *,
    development: bool,
) -> dict[str, str]:
    """Writes the locks of a row, and returns the names of the others, and why there are none.

    Args:
        entry: the row, as in the table.
        platform: its platform, as in the table.
        folder: for the locks.
        python: a Python that has pip.
        torch_sha256: digest of the wheel of torch for CPUs, if the indexes do not have it.
        development: also those of this repository's tests and linters.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as temporary:
        row = Path(temporary) / "row.json"
        row.write_text(json.dumps({"platform": platform, "row": entry}))
        for site in SITES:
            if "/" in site or not (development or site in RULES_SITES):
                continue
            command = [python, "-B", str(_HERE / "lock.py"), f"--row={row}", f"--folder={folder}"]
            command += [f"--torch-sha256={torch_sha256}", site]
            done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                missing[site] = done.stderr.strip()
    return missing


def read_table(path: Path) -> dict[str, Any]:
    """Returns a table; an empty one if there is no such file.

    Raises:
        SystemExit: it is not a table.
    """
    try:
        table = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"rows": []}
    except ValueError as error:
        sys.exit(f"error DC017: {path}: not JSON: {error}")
    if not isinstance(table, dict) or not isinstance(table.get("rows"), list):
        sys.exit(f'error DC017: {path}: not a table of rows, such as {{"rows": []}}')
    return table


def _python(text: str) -> str:
    if not re.fullmatch(r"3\.\d+", text):
        raise argparse.ArgumentTypeError(f"{text}: expected two numbers, such as 3.13")
    return text


def _torch(text: str) -> str:
    if not re.fullmatch(r"\d+\.\d+\.\d+", text):
        raise argparse.ArgumentTypeError(f"{text}: expected three numbers, such as 2.13.0")
    return text


def with_row(table: dict[str, Any], entry: dict[str, Any]) -> str:
    """Returns the text of a table with a row, which replaces one for the same Python, torch and platform."""
    key = ("python", "torch", "platform")
    same = [all(each[name] == entry[name] for name in key) for each in table["rows"]]
    rows = [entry if replaced else each for each, replaced in zip(table["rows"], same, strict=True)]
    rows += [] if any(same) else [entry]
    platforms = table.get("platforms", {})
    lines = [f"    {json.dumps(name)}: {json.dumps(each)}" for name, each in platforms.items()]
    parts = ['  "platforms": {\n' + ",\n".join(lines) + "\n  }"] if platforms else []
    parts.append('  "rows": [\n' + ",\n".join(f"    {json.dumps(each)}" for each in rows) + "\n  ]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> int:
    shipped = json.loads(TABLE.read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--python", type=_python, required=True, metavar="X.Y")
    parser.add_argument("--torch", type=_torch, required=True, metavar="X.Y.Z")
    parser.add_argument("--platform", required=True, choices=sorted(shipped["platforms"]))
    parser.add_argument(
        "--interpreter", choices=("host", "debian"), default="host", help="debian: of debian_pythons.bzl"
    )
    parser.add_argument("--torch-sha256", default="", help="of torch's CPU wheel, if the indexes lack it")
    parser.add_argument("--development", action="store_true", help="also the locks of the rules' own tests")
    parser.add_argument("--table", default="third_party/python/rows.json", help="in the workspace")
    options = parser.parse_args()

    path = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", ".")) / options.table
    table = read_table(path)
    platform = {**shipped["platforms"], **table.get("platforms", {})}[options.platform]
    entry = {name: getattr(options, name) for name in ("python", "torch", "platform", "interpreter")}
    name = row_of(entry, platform).name
    entry["locks"] = f"rows/{name}"
    folder = path.parent / entry["locks"]
    with tempfile.TemporaryDirectory() as temporary:
        locks = Path(temporary) / "locks"
        missing = resolve_locks(
            entry,
            platform,
            locks,
            python_with_pip(),
            options.torch_sha256,
            development=options.development,
        )
        for reason in missing.values():
            print(f"no lock of {reason}", file=sys.stderr)
        if "compiler" in missing:
            return 1
        shutil.copytree(locks, folder, dirs_exist_ok=True)
    for site in missing:
        (folder / f"{site}.lock.txt").unlink(missing_ok=True)
    # Bazel looks for new locks if the table changes.
    entry["locked"] = sorted(file.name.removesuffix(".lock.txt") for file in folder.glob("*.lock.txt"))
    path.write_text(with_row(table, entry), encoding="utf-8")
    print(f"{path}: row {name}")
    package = Path(options.table).parent.as_posix().removeprefix(".")
    print(_USE.format(name=name, package=package, table=path.name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
