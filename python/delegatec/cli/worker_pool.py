# SPDX-License-Identifier: Apache-2.0
"""The copies of a worker that have imported the libraries of earlier requests."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO, Final, Protocol, TextIO

from delegatec.cli.preloaded_worker import Libraries, PreloadedWorker, imported_modules, libraries_of
from delegatec.cli.worker_protocol import WorkRequest, WorkResponse

# WorkerPool that are kept: libraries of an export may be large; a worker lowers for several backends in turn.
_EXPORTS: Final = 1
_OTHERS: Final = 8

Wrap = Callable[[Callable[[], int]], Callable[[], int]]


class Answer(Protocol):
    """Answers a request in a child process.

    Takes the streams that user code must not see, and the wrapper of the function that runs in the child.
    """

    def __call__(
        self, request: WorkRequest, streams: Sequence[BinaryIO], wrap: Wrap = ...
    ) -> WorkResponse: ...


@dataclass
class _Copy:
    """What is known of some libraries: the modules that the first request imported, then the process."""

    modules: list[str] = field(default_factory=list)
    process: PreloadedWorker | None = None

    def close(self) -> None:
        if self.process is not None:
            self.process.close()
        self.modules, self.process = [], None


class WorkerPool:
    """Answers requests, in a child of this process, or of one that has imported the request's libraries.

    Args:
        answer: answers a request in a child of the process that calls it.
        streams: the streams to Bazel.
    """

    def __init__(self, answer: Answer, streams: Sequence[BinaryIO]) -> None:
        self._answer = answer
        self._streams = streams
        # Libraries -> their copy, the last used ones at the end.
        self._exports: dict[object, _Copy] = {}
        self._others: dict[object, _Copy] = {}

    def answer(self, request: WorkRequest) -> WorkResponse:
        """Answers a request."""
        libraries = libraries_of(request)
        if libraries is None:
            return self._answer(request, self._streams)
        is_export = libraries.verb == "export"
        copies, most = (self._exports, _EXPORTS) if is_export else (self._others, _OTHERS)
        copy = copies.pop(libraries.key, None)
        if copy is None:
            while len(copies) >= most:
                copies.pop(next(iter(copies))).close()
            copies[libraries.key] = copy = _Copy()
            with tempfile.TemporaryFile("w+") as names:
                first = self._answer(request, self._streams, partial(_listing, libraries, names))
                names.seek(0)
                copy.modules = names.read().split()
            return first
        copies[libraries.key] = copy
        if copy.modules:
            copy.process = PreloadedWorker(libraries, copy.modules, self._answer, self._streams)
            copy.modules = []
            if not copy.process.is_ready:
                copy.close()
        response = copy.process.answer(request) if copy.process is not None else None
        if response is None:
            copy.close()
            return self._answer(request, self._streams)
        return response


def _listing(libraries: Libraries, names: TextIO, run: Callable[[], int]) -> Callable[[], int]:
    """Returns a function that runs another one, and writes the modules that it imported if it succeeds."""

    def listed() -> int:
        before = list(sys.modules)
        code = run()
        if code == 0:
            names.write("\n".join(imported_modules(before, libraries.sources)))
            names.flush()
        return code

    return listed
