# SPDX-License-Identifier: Apache-2.0
"""What sets the child that answers a worker's request apart from the rest of the machine.

Bazel starts a sandboxed action without a network, but a sandboxed worker with one: in 4.2.3 only files are
kept from it. A request must not succeed in a worker and fail in a sandbox.
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
    """Ends this process when its parent ends: Bazel kills a worker whose build was interrupted.

    Args:
        parent: id of the parent; if that has ended already, so does this process, at once.
    """
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was killed before the call
        os.kill(os.getpid(), signal.SIGKILL)


def leave_network() -> bool:
    """Moves this process, which must have one thread, into a network namespace without any interface.

    Returns:
        Whether it did: the host may forbid it, as some containers do.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None)
    if libc.unshare(_CLONE_NEWNET) == 0:
        return True
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        return False
    # in its own user namespace a process is nobody until it says who it is
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return True
