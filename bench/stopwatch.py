# SPDX-License-Identifier: Apache-2.0
"""Cost of a task: CPU time of its stages, and resident memory."""

from __future__ import annotations

import gc
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class Stopwatch:
    """CPU seconds by stage, of this process and the children it waits for.

    Attributes:
        seconds: stage -> its seconds, in order; repeated stages are added up.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Adds the CPU time of the body to a stage."""
        start = _cpu()
        yield
        self.seconds[name] = self.seconds.get(name, 0) + _cpu() - start


def collect_as_the_worker() -> None:
    """Collects garbage as rarely as the command line: a collection traverses all of torch in 0.3 s."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


def added_memory(work: Callable[[], object]) -> int:
    """Returns the maximum growth of this process's resident memory while `work` runs, in bytes.

    Not by getrusage, whose peak a process inherits from its parent.
    """
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak: see proc(5)
    before = resident_memory()
    work()
    return _status("VmHWM") - before


def resident_memory() -> int:
    """Returns this process's resident memory, in bytes."""
    return _status("VmRSS")


def _cpu() -> float:
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def _status(field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024
