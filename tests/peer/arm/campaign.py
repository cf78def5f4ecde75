# SPDX-License-Identifier: Apache-2.0
"""Runs cases of the peer's Arm suite in forked processes with limits, and writes one line of JSON for each.

A run that was stopped continues where it was: cases in the output file are skipped.
"""

from __future__ import annotations

import contextlib
import json
import re
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.peer.arm.cases import CaseError, PreparedCase, prepare
from tests.peer.arm.collection import KINDS, ArmCase, arm_cases, arm_modules
from tests.peer.arm.ours import ERROR, NONE, Run, as_it_should_be, outcome
from tests.peer.forked import Task, run_forked


def read_lines(path: Path) -> dict[str, dict[str, Any]]:
    """Returns the lines of an output file by the names of their cases; a truncated last line is left out."""
    found = {}
    if path.exists():
        for text in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(json.JSONDecodeError):  # also an empty line
                line = json.loads(text)
                found[line["name"]] = line
    return found


@dataclass(frozen=True)
class Selection:
    """Which cases to run.

    Attributes:
        modules: of the peer, like `ops/add`.
        kinds: of `KINDS`.
        pattern: a regular expression that the name contains.
        every: takes one case of this number in each module and kind.
        names: of the only cases; None for any.
    """

    modules: Sequence[str]
    kinds: Sequence[str] = KINDS
    pattern: str = ""
    every: int = 1
    names: Collection[str] | None = None

    def cases(self, module: str) -> Iterator[ArmCase]:
        """Yields the cases of a module."""
        seen: Counter[str] = Counter()
        # Not always the first of a module, which is often the simplest.
        offset = zlib.crc32(module.encode()) % self.every
        for case in arm_cases([module]):
            seen[case.kind] += 1
            chosen = (seen[case.kind] + offset) % self.every == 0
            chosen = chosen and (self.names is None or case.name in self.names)
            if chosen and case.kind in self.kinds and re.search(self.pattern, case.name):
                yield case


Prepare = Callable[[ArmCase], PreparedCase]


def run_case(case: ArmCase, run: Run | None, prepare: Prepare = prepare) -> dict[str, Any]:
    """Returns the line of a case: its kind and `Outcome`."""
    line: dict[str, Any] = {"kind": case.kind, "expected": case.expected}
    try:
        prepared = prepare(case)
    except CaseError as error:
        return {**line, "status": NONE, "reason": " ".join(str(error).split())[:400]}
    line["specification"] = prepared.specification
    try:
        return {**line, **asdict(outcome(prepared, run))}
    except Exception as error:  # noqa: BLE001 - any bug of ours
        frames = traceback.extract_tb(error.__traceback__)
        frame = next((f for f in reversed(frames) if "delegatec" in f.filename), frames[-1])
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        reason = f"{type(error).__name__} in {where}: {' '.join(str(error).split())[:300]}"
        return {**line, "status": ERROR, "reason": reason}


def campaign(
    selection: Selection,
    output: Path,
    run: Run | None,
    *,
    prepare: Prepare = prepare,
    seconds: float = 120,
    again: bool = False,
) -> None:
    """Runs cases, and appends a line for each to a file.

    Args:
        selection: which.
        output: the file of lines; cases in it are skipped.
        run: runs TOSA graphs.
        prepare: prepares a case.
        seconds: limit of a case.
        again: runs only cases in the file that are not as they should be.
    """
    # Imported before the first fork.
    arm_modules()
    found = read_lines(output)
    skip = set(found)
    if again:
        lines = [
            line for line in found.values() if line["status"] not in (*as_it_should_be(line["kind"]), NONE)
        ]
        names, modules = ({line[key] for line in lines} for key in ("name", "module"))
        skip -= names
        chosen = [each for each in selection.modules if each in modules]
        selection = replace(selection, modules=chosen, names=names)
    with output.open("a", encoding="utf-8") as file:
        if skip:
            file.write("\n")  # The last line may be truncated.
        for module in selection.modules:
            print(module, flush=True)

            def tasks(module: str = module) -> Iterator[Task]:
                for case in selection.cases(module):
                    yield Task(case.name, partial(run_case, case, run, prepare))

            for line in run_forked(tasks, skip, seconds):
                file.write(json.dumps({**line, "module": module}) + "\n")
                file.flush()
