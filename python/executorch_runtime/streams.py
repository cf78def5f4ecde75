# SPDX-License-Identifier: Apache-2.0
"""Standard streams while native code runs."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps what native code prints, text and logs, and prints it if it fails."""
    streams = (1, 2)
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {stream: os.dup(stream) for stream in streams}
    with tempfile.TemporaryFile() as log:
        for stream in streams:
            os.dup2(log.fileno(), stream)
        try:
            yield
        except BaseException:
            log.seek(0)
            os.write(kept[2], log.read())
            raise
        finally:
            for stream, copy in kept.items():
                os.dup2(copy, stream)
                os.close(copy)
