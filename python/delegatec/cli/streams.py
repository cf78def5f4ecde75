# SPDX-License-Identifier: Apache-2.0
"""Standard streams of a process whose parent closed some of them."""

from __future__ import annotations

import os
import sys


def open_standard_streams() -> None:
    """Opens the closed ones of the file descriptors 0, 1 and 2, so that no file gets their numbers.

    Otherwise, output of a library would be written to an output file. Writing to a descriptor that was closed
    fails.
    """
    for descriptor, flags in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            # Free descriptors are allocated in order.
            os.open(os.devnull, flags)
    # Python has none for descriptors that were closed when it started.
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
