# SPDX-License-Identifier: Apache-2.0
"""Progress of a long verb, as the last line of a terminal; files, pipes and workers get none of it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from delegatec.cli.colors import is_colorful

_ERASE_LINE: Final = "\r\x1b[K"
_SECONDS_PER_UPDATE: Final = 1.0

Announce = Callable[[str], None]
"""Starts a stage, by a text such as "tracing forward"."""


class Progress:
    """The last line of a terminal, which says what a long computation does; nothing elsewhere.

    Args:
        stream: where the line is; stderr if it is not given.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self.is_shown: Final = is_colorful(self._stream, {**os.environ, "NO_COLOR": ""})

    def show(self, text: str) -> None:
        """Replaces the line; an empty text removes it."""
        if self.is_shown:
            self._stream.write(f"{_ERASE_LINE}{text}")
            self._stream.flush()


@contextmanager
def stages(stream: TextIO | None = None, *, is_quiet: bool = False) -> Iterator[Announce]:
    """Within this scope, shows the stage that runs and its seconds since the start; then removes the line.

    Args:
        stream: as of `Progress`.
        is_quiet: whether to show nothing, because something else is written to the stream.

    Yields:
        A function that starts a stage. It does nothing if the stream is not a terminal.
    """
    progress = Progress(stream)
    if is_quiet or not progress.is_shown:
        yield _ignore
        return
    line = _Line(progress)
    ticking = threading.Thread(target=line.tick, daemon=True)
    ticking.start()
    try:
        yield line.start
    finally:
        line.end()
        ticking.join()


@contextmanager
def announced_passes(announce: Announce) -> Iterator[None]:
    """Within this scope, announces each pass over a program after it ran."""
    from delegatec.edge.passes.pass_manager import observed_passes

    with observed_passes(lambda name, program, changed: announce(f"lowering {program.method}, after {name}")):
        yield


def _ignore(stage: str) -> None:
    pass


class _Line:
    """The stage and its time, which a thread updates while the computation is busy."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._began = time.monotonic()
        self._stage = ""
        self._ended = threading.Event()
        self._lock = threading.Lock()

    def start(self, stage: str) -> None:
        """Shows another stage."""
        self._stage = stage
        self._update()

    def tick(self) -> None:
        """Updates the time until the end."""
        while not self._ended.wait(_SECONDS_PER_UPDATE):
            self._update()

    def end(self) -> None:
        """Removes the line, for good."""
        self._ended.set()
        with self._lock:
            self._progress.show("")

    def _update(self) -> None:
        with self._lock:
            if self._stage and not self._ended.is_set():
                seconds = time.monotonic() - self._began
                self._progress.show(f"{self._stage}, {seconds:.0f} s")
