# SPDX-License-Identifier: Apache-2.0
"""A copy of the worker that has imported the libraries of a request, for others with the same libraries.

A library such as transformers takes longer to import than a model to export, and a backend longer than a
small model to lower. The second request with the same libraries starts the copy, which later ones are forked
from. It imports the modules that the first one has imported, in the same order, and is used only if that
changes nothing but the modules that are loaded.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib
import io
import json
import os
import random
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from delegatec.cli.isolation import die_with, leave_network
from delegatec.cli.worker_protocol import WorkRequest, WorkResponse

_READY: Final = b"1"
# A target's arguments, which are among the inputs of its action.
_PARAMETERS: Final = re.compile(r".*-\d+\.params")


@dataclass(frozen=True)
class Libraries:
    """What a request may import besides its own sources.

    Attributes:
        verb: the compiler's verb.
        paths: the import paths, in order.
        inputs: hash of the paths and digests of all inputs except the target's own.
        sources: the target's own files.
    """

    verb: str
    paths: tuple[str, ...]
    inputs: str
    sources: frozenset[str]

    @property
    def key(self) -> tuple[str, tuple[str, ...], str]:
        """Equal for requests that import the same libraries."""
        return self.verb, self.paths, self.inputs


def libraries_of(request: WorkRequest) -> Libraries | None:
    """Returns the libraries of a request; None for inputs without digests."""
    own = frozenset(argument.rpartition("=")[2] for argument in request.arguments)
    manifests = {
        os.path.dirname(path): digest for path, digest in request.inputs if path.endswith(".manifest")
    }
    others = [
        # A directory has no digest, but the manifest next to it.
        (path, digest or manifests.get(os.path.dirname(path), b""))
        for path, digest in request.inputs
        if path not in own and not _PARAMETERS.fullmatch(path)
    ]
    if not request.arguments or not others or not all(digest for _, digest in others):
        return None
    digest = hashlib.sha256(repr(sorted(others)).encode()).hexdigest()
    return Libraries(request.arguments[0], tuple(_values(request, "--import-path")), digest, own)


def _values(request: WorkRequest, flag: str) -> list[str]:
    start = f"{flag}="
    return [argument[len(start) :] for argument in request.arguments if argument.startswith(start)]


def imported_modules(before: Sequence[str], sources: frozenset[str]) -> list[str]:
    """Returns the modules from files that were imported since, in order, without the target's own."""
    own = {os.path.realpath(source) for source in sources}
    names = []
    for name in list(sys.modules)[len(before) :]:
        origin = getattr(getattr(sys.modules[name], "__spec__", None), "origin", None)
        if isinstance(origin, str) and os.path.isfile(origin) and os.path.realpath(origin) not in own:
            names.append(name)
    return names


class PreloadedWorker:
    """A process that has imported modules, and answers requests.

    Args:
        libraries: the libraries to import from.
        names: modules to import, in order.
        answer: answers a request in a process; takes the streams that user code must not see.
        streams: those of this process.
    """

    def __init__(
        self,
        libraries: Libraries,
        names: Sequence[str],
        answer: Callable[[WorkRequest, Sequence[BinaryIO]], WorkResponse],
        streams: Sequence[BinaryIO],
    ) -> None:
        self.key = libraries.key
        ours, theirs = _pipe(), _pipe()
        parent = os.getpid()
        self._child = os.fork()
        if self._child == 0:
            try:
                die_with(parent)
                ours[1].close()
                theirs[0].close()
                if _preload(libraries, names):
                    _serve(answer, ours[0], theirs[1], streams)
            finally:
                os._exit(0)
        ours[0].close()
        theirs[1].close()
        self._requests, self._responses = ours[1], theirs[0]
        self.is_ready = self._responses.read(1) == _READY

    def answer(self, request: WorkRequest) -> WorkResponse | None:
        """Answers a request; returns None if the process has ended."""
        with contextlib.suppress(OSError, ValueError, TypeError):
            _send(self._requests, [request.arguments, request.request_id])
            code, output = json.loads(self._responses.readline())
            return WorkResponse(int(code), str(output), request.request_id)
        return None

    def close(self) -> None:
        """Ends the process, which waits for a request."""
        with contextlib.suppress(OSError):  # what was not sent
            self._requests.close()
        self._responses.close()
        # Other copies have inherited the pipe, so that it has no end.
        os.kill(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)


def _pipe() -> tuple[BinaryIO, BinaryIO]:
    reader, writer = os.pipe()
    return os.fdopen(reader, "rb"), os.fdopen(writer, "wb")


def _preload(libraries: Libraries, names: Sequence[str]) -> bool:
    """Imports modules; returns whether exports cannot tell."""
    leave_network()
    state, environment = _random_state(), dict(os.environ)
    sys.path[:0] = [path for path in map(os.path.abspath, libraries.paths) if path not in sys.path]
    before = list(sys.modules)
    with warnings.catch_warnings(), _captured() as printed:
        warnings.simplefilter("ignore")
        for name in names:
            importlib.import_module(name)
    unexpected = set(list(sys.modules)[len(before) :]) - set(names)
    own = {os.path.realpath(source) for source in libraries.sources}
    from_own = [
        name
        for name in unexpected
        if os.path.realpath(str(getattr(sys.modules[name], "__file__", ""))) in own
    ]
    return (
        not from_own
        and not printed.getvalue()
        and _random_state() == state
        and dict(os.environ) == environment
        and len(os.listdir("/proc/self/task")) == 1  # forked processes would lack other threads
    )


@contextlib.contextmanager
def _captured() -> Iterator[io.StringIO]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        yield printed


def _random_state() -> list[Any]:
    import numpy
    import torch

    kind, keys, *rest = numpy.random.get_state()
    return [random.getstate(), kind, bytes(keys), rest, bytes(torch.get_rng_state().numpy())]  # type: ignore[arg-type]


def _serve(
    answer: Callable[[WorkRequest, Sequence[BinaryIO]], WorkResponse],
    requests: BinaryIO,
    responses: BinaryIO,
    streams: Sequence[BinaryIO],
) -> None:
    gc.collect()
    gc.freeze()
    responses.write(_READY)
    responses.flush()
    for line in requests:
        arguments, request_id = json.loads(line)
        request = WorkRequest(tuple(arguments), request_id=request_id)
        response = answer(request, (*streams, requests, responses))
        _send(responses, [response.exit_code, response.output])


def _send(stream: BinaryIO, message: object) -> None:
    stream.write(json.dumps(message).encode() + b"\n")
    stream.flush()
