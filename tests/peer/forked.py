# SPDX-License-Identifier: Apache-2.0
"""Runs cases of a suite in forked processes with limits: a crash or a hang is the outcome of one case."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

_DATA: Final = 12 << 30


@dataclass
class Task:
    """A case to run.

    Attributes:
        name: its name.
        run: returns the fields of its line.
    """

    name: str
    run: Callable[[], dict[str, Any]]


@dataclass
class _Child:
    """A forked process that runs tasks in order, and reports on a pipe."""

    pid: int
    pipe: int
    text: bytes = b""
    started: str = ""
    ended: bool = False
    lines: list[dict[str, Any]] = field(default_factory=list)

    def read(self, seconds: float) -> bool:
        """Waits for a message; returns whether there was one."""
        if not select.select([self.pipe], [], [], seconds)[0]:
            return False
        data = os.read(self.pipe, 1 << 16)
        self.ended = not data
        *messages, self.text = (self.text + data).split(b"\n")
        for message in messages:
            line = json.loads(message)
            if "start" in line:
                self.started = line["start"]
            else:
                self.started = ""
                self.lines.append(line)
        return True


def run_forked(
    make: Callable[[], Iterable[Task]], skip: set[str], seconds: float
) -> Iterator[dict[str, Any]]:
    """Runs tasks in a forked process, and in another after one that ended it.

    Args:
        make: returns the tasks, in the same order each time; called in the process.
        skip: names of tasks that are not run; those that were are added.
        seconds: limit of each.

    Yields:
        A line for each task: its result, or how it ended.
    """
    while True:
        child = _fork(make, skip)
        while not child.ended:
            answered = child.read(seconds)
            for line in child.lines:
                skip.add(line["name"])
                yield line
            child.lines.clear()
            if not answered:
                os.kill(child.pid, signal.SIGKILL)
                break
        os.close(child.pipe)
        status = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        if not child.started:
            if status:
                yield {
                    "name": "",
                    "kind": "",
                    "status": "error",
                    "reason": f"the tasks cannot be made: exit {status}",
                }
            return
        skip.add(child.started)
        ended = (
            "the process exceeds its time" if status == -signal.SIGKILL else f"the process ends with {status}"
        )
        yield {"name": child.started, "kind": "", "status": "error", "reason": ended}


def _fork(make: Callable[[], Iterable[Task]], skip: set[str]) -> _Child:
    source, target = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        os.close(target)
        return _Child(pid, source)
    os.close(source)
    status = 1
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_DATA, (_DATA, _DATA))
        for task in make():
            if task.name in skip:
                continue
            _write(target, {"start": task.name})
            start = time.process_time()
            line = task.run()
            _write(target, {"name": task.name, **line, "seconds": round(time.process_time() - start, 3)})
        status = 0
    except BaseException:  # noqa: BLE001 - the parent reports how the process ends
        traceback.print_exc()
    os._exit(status)


def _write(pipe: int, line: dict[str, Any]) -> None:
    data = json.dumps(line).encode() + b"\n"
    while data:
        data = data[os.write(pipe, data) :]
