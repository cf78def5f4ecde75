# SPDX-License-Identifier: Apache-2.0
"""Installs the wheels of a lock into a directory, and removes the files that a build does not need.

Usage: install_wheels.py --row FILE --lock FILE --target FOLDER [--drop PATTERN]... [--keep PATH]...

The host's configuration of pip determines the index, the lock the wheels.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from rows import Row, chosen_row

# A file next to the modules: versions and hashes of the wheels.
INSTALLED_LOCK = "wheels.lock.txt"


def install(lock: str, target: str, row: Row) -> None:
    """Installs exactly the wheels of the lock, one wheel per line, with pip."""
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *row.pip_options()]
        + ["--quiet", "--disable-pip-version-check", "--no-warn-conflicts", "--root-user-action=ignore"]
        + ["--no-compile", "--no-deps", "--require-hashes", "--target", target, "--requirement", lock],
        check=True,
    )
    # For the manifests of programs. A lock without its comments, which are not inputs of any action.
    lines = Path(lock).read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if "==" in line and not line.startswith("#")]
    (Path(target) / INSTALLED_LOCK).write_text("".join(f"{line}\n" for line in sorted(pins)))


def trim(target: Path, drop: list[str], keep: list[str]) -> None:
    """Removes the files that match the patterns of `drop`, except the paths of `keep`."""
    kept = {target / path for path in keep}
    for pattern in drop:
        for path in sorted(target.glob(pattern)):
            if path in kept or not path.exists():
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--row", type=Path, required=True, help="row.json of @delegatec_row")
    parser.add_argument("--lock", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--drop", action="append", default=[])
    parser.add_argument("--keep", action="append", default=[])
    options = parser.parse_args()
    try:
        install(options.lock, options.target, chosen_row(options.row))
    except subprocess.CalledProcessError as error:
        return int(error.returncode)
    trim(Path(options.target), options.drop, options.keep)
    return 0


if __name__ == "__main__":
    sys.exit(main())
