# SPDX-License-Identifier: Apache-2.0
"""Isolation of the worker's child processes from the rest of the machine.

Bazel blocks the network for sandboxed actions but not for sandboxed workers: 4.2.3 isolates only their files.
A request must not succeed in a worker and fail in a sandbox.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Final

# linux/prctl.h and linux/sched.h
_PR_SET_PDEATHSIG: Final = 1
_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWNET: Final = 0x40000000


def die_with(parent: int) -> None:
    """Ends this process when its parent ends: Bazel kills the worker of an interrupted build.

    Args:
        parent: process id of the parent; if it has already ended, this process exits at once.
    """
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # killed before the call
        os.kill(os.getpid(), signal.SIGKILL)


def leave_network() -> bool:
    """Moves this single-threaded process into a network namespace without interfaces.

    Returns:
        Whether it succeeded: some hosts, such as containers, forbid it.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None)
    if libc.unshare(_CLONE_NEWNET) == 0:
        return True
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        return False
    # A process in a new user namespace has no user until it maps one.
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return True
