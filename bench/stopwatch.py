# SPDX-License-Identifier: Apache-2.0
"""What a piece of work costs: processor time of its stages, and resident memory."""

from __future__ import annotations

import gc
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class Stopwatch:
    """Seconds of processor time by stage, of this process and of the children it waits for.

    Attributes:
        seconds: stage -> its seconds, in the order of the stages; a stage that comes twice is added up.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Counts what the body takes to a stage."""
        start = _cpu()
        yield
        self.seconds[name] = self.seconds.get(name, 0) + _cpu() - start


def added_memory(work: Callable[[], object]) -> int:
    """By how many bytes the resident memory of this process grows at most while `work` runs.

    Not by getrusage, whose peak a process takes over from the one that started it.
    """
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew: see proc(5)
    before = _status("VmRSS")
    work()
    return _status("VmHWM") - before


def _cpu() -> float:
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def _status(field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024
