# SPDX-License-Identifier: Apache-2.0
"""What a piece of work costs: processor time and resident memory."""

from __future__ import annotations

import gc
import os
import resource
import time
from collections.abc import Callable


def cpu_seconds(work: Callable[[], object]) -> float:
    """Seconds of processor time that `work` takes, of this process and of the children it waits for."""
    gc.collect()
    start = _cpu()
    work()
    return _cpu() - start


def _cpu() -> float:
    children = os.times()
    return time.process_time() + children.children_user + children.children_system


def peak_memory() -> int:
    """The most bytes that were resident so far in this process (children not counted)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
