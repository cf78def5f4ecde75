# SPDX-License-Identifier: Apache-2.0
"""Installs a team's wheels, which are used in one process with the compiler's, and says what does not fit.

Usage: team_wheels.py --row FILE --lock NAME=FILE --compiler NAME=FILE --compiler-site FOLDER --target FOLDER
    [--other-lock NAME=FILE]... [--find-links FOLDER]... [--allow-missing NAME]... [--drop PATTERN]...
    [--keep PATH]...

Instead of --lock: --uv-lock NAME=FILE [--project NAME] [--extra NAME]... [--group NAME]...

NAME is how messages name a file. Wheels that the compiler or another lock has in the same version are left to
them. Returns 0; 1 if pip fails; or 3 for wheels that do not fit, after it has printed a line per problem.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from install_wheels import install, trim
from locked_wheels import Lock, read_lock
from rows import Row, chosen_row
from uv_locks import Choice, read_uv_lock
from wheels_fit import (
    gpu_libraries,
    gpu_wheels,
    installed,
    other_versions,
    shadowed_modules,
    unmet_requirements,
)

PIP_FAILED = 1
DOES_NOT_FIT = 3


def _named_lock(argument: str, row: Row) -> Lock:
    shown, _, path = argument.partition("=")
    return read_lock(Path(path), shown, row.markers)


def _own_lock(options: argparse.Namespace, row: Row) -> Lock:
    if options.lock:
        return _named_lock(options.lock, row)
    shown, _, path = options.uv_lock.partition("=")
    return read_uv_lock(Path(path), shown, Choice(options.project, options.extra, options.group), row.markers)


def _install_rest(lock: Lock, names: set[str], options: argparse.Namespace, row: Row) -> None:
    """Installs some wheels of a lock with pip."""
    links = [f"--find-links {shlex.quote(folder)}" for folder in options.find_links]
    pins = "".join(f"{lock.pins[name].text}\n" for name in sorted(names))
    with tempfile.TemporaryDirectory() as folder:
        rest = Path(folder) / "rest.txt"
        rest.write_text("".join(f"{line}\n" for line in [*lock.options, *links]) + pins)
        install(str(rest), options.target, row)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--row", type=Path, required=True, help="row.json of @delegatec_row")
    locks = parser.add_mutually_exclusive_group(required=True)
    locks.add_argument("--lock")
    locks.add_argument("--uv-lock")
    parser.add_argument("--project", default="")
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--compiler-site", required=True)
    parser.add_argument("--target", required=True)
    repeated = ("--other-lock", "--find-links", "--allow-missing", "--drop", "--keep", "--extra", "--group")
    for flag in repeated:
        parser.add_argument(flag, action="append", default=[])
    options = parser.parse_args()

    row = chosen_row(options.row)
    lock, target = _own_lock(options, row), Path(options.target)
    below = {}
    for argument in (options.compiler, *options.other_lock):
        below |= _named_lock(argument, row).pins
    problems = lock.problems + gpu_wheels(lock.pins) + other_versions(lock.pins, below)
    if not problems:
        target.mkdir()
        try:
            _install_rest(lock, lock.pins.keys() - below.keys(), options, row)
        except subprocess.CalledProcessError:
            return PIP_FAILED
        trim(target, options.drop, options.keep)
        allowed = frozenset(options.allow_missing)
        problems = unmet_requirements(installed(target), lock.pins, below, allowed, row.markers)
        problems += gpu_libraries(target)
        problems += shadowed_modules(target, {"the compiler's wheels": Path(options.compiler_site)})
    for problem in problems:
        print(problem)
    return DOES_NOT_FIT if problems else 0


if __name__ == "__main__":
    sys.exit(main())
