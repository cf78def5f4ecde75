# SPDX-License-Identifier: Apache-2.0
"""Lowers cases of the peer's suite by both compilers, in forked processes, and keeps a line of JSON for each.

A run that was stopped continues where it was: sides in the file are skipped.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tests.peer.forked import Task, run_forked
from tests.peer.xnnpack.collection import PeerCase, PeerTest, peer_modules, peer_tests, record
from tests.peer.xnnpack.sides import FAILS, OURS, PEER, Side, side

_SECONDS = 1200
# Of a test. One of them lowers some 600 combinations of the arguments of a pool.
_CASES = 24

# Name of a case -> compiler -> its side.
Sides = dict[str, dict[str, Side]]


def run(
    output: Path,
    modules: Sequence[str] = (),
    pattern: str = "",
    every: int = 1,
    again: Sequence[str] = (),
) -> Sides:
    """Runs cases, appends a line for each side to a file, and returns all of the file.

    Args:
        output: the file of lines.
        modules: of the peer, like `ops/add`; all of them by default.
        pattern: a regular expression that the name of a test contains.
        every: takes one test of this number in each module.
        again: compilers whose sides are measured again.
    """
    torch.set_num_threads(1)
    names = list(modules) or peer_modules()
    for module in names:
        peer_tests(module)  # Imported before the first fork.
    skip = {
        _task(name, compiler)
        for name, pair in read(output).items()
        for compiler in pair
        if compiler not in again or not re.search(pattern, name)
    }
    with output.open("a", encoding="utf-8") as file:
        for module in names:
            print(module, flush=True)
            for line in run_forked(partial(_tasks, module, pattern, every), skip, _SECONDS):
                if not line["name"]:
                    raise RuntimeError(f"{module}: {line['reason']}")
                file.write(json.dumps(line) + "\n")
                file.flush()
    return read(output)


def read(path: Path) -> Sides:
    """Returns the lines of a file; the last of a side counts."""
    found: Sides = {}
    if path.exists():
        for text in path.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            name, _, compiler = line["name"].rpartition(", ")
            found.setdefault(name, {})[compiler] = _side(line)
    return found


def _tasks(module: str, pattern: str, every: int) -> Iterator[Task]:
    for test in selected(module, pattern, every):
        cases = record(test)
        for case in cases[:: -(-len(cases) // _CASES) or 1]:
            for compiler in (PEER, OURS):
                yield Task(_task(case.name, compiler), partial(_line, case, compiler))


def selected(module: str, pattern: str = "", every: int = 1) -> list[PeerTest]:
    """Returns tests of a module: not always the first, which is often the simplest."""
    offset = zlib.crc32(module.encode()) % every
    tests = [test for test in peer_tests(module) if re.search(pattern, test.name)]
    return tests[min(offset, len(tests) - 1) :: every] if tests else []


def _task(name: str, compiler: str) -> str:
    return f"{name}, {compiler}"


def _line(case: PeerCase, compiler: str) -> dict[str, Any]:
    return asdict(side(case, compiler))


def _side(line: Mapping[str, Any]) -> Side:
    if "result" not in line:  # how the process ended
        return Side(FAILS, detail=str(line["reason"]))
    values = {each.name: line[each.name] for each in fields(Side) if each.name in line}
    return Side(**{**values, "left": tuple(values["left"])})
