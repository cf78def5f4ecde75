# SPDX-License-Identifier: Apache-2.0
"""A copy of this process that keeps a module, and all that it refers to, as the user's code left it.

torch.export runs the module's code, and with it changes what the code changes: attributes, caches, closures,
generators. Only a copy of the whole process has all of it in its initial state. Each task runs in a copy of
that copy, so that no task sees the effects of another one.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import torch

from delegatec.frontend.eager.equal_products import use_openblas

# Seconds after which a task is ended, such as one that waits for a thread, which a copy of a process lacks.
_LONGEST: Final = 900
_DONE: Final = b"\1"
_FAILED: Final = b"\0"
_RESULT: Final = "result"


class TaskEndedError(Exception):
    """The process of a task ended before the task: user code ended it, or a signal."""


class Pristine:
    """A process in the state in which `pristine` found it."""

    def __init__(self, exchange: Any, requests: int, answers: int) -> None:
        self._exchange = exchange
        self._requests = requests
        self._answers = answers
        self._owner = os.getpid()

    @property
    def is_own(self) -> bool:
        """Whether this is the process that made the copy, not one that user code forked from it."""
        return os.getpid() == self._owner

    def run(self, task: Callable[..., Any], *arguments: Any) -> Any:
        """Runs a task in a new copy of the process.

        Args:
            task: a function of a module that this process has imported; it receives the subject of `pristine`
                first.
            arguments: its further arguments; tensors are passed by value.

        Returns:
            Its result: plain values and tensors.

        Raises:
            TaskEndedError: it did not end by itself.
        """
        if not self.is_own:
            os._exit(1)
        _write(self._exchange, (task, arguments))
        try:
            os.write(self._requests, _DONE)
            answer = os.read(self._answers, 1)
        except BrokenPipeError:
            answer = b""
        if answer != _DONE:
            raise TaskEndedError
        self._exchange.seek(0)
        kind, result = torch.load(self._exchange, weights_only=False)
        if kind != _RESULT:  # user code ended the process as if nothing had happened
            raise TaskEndedError
        return result


@contextmanager
def pristine(subject: Any = None) -> Iterator[Pristine]:
    """Keeps a copy of this process until the end of the scope.

    Args:
        subject: the subject of the tasks, such as a module; changes to it in the scope do not affect the
            copy.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # The copy would print the buffered text once more.
    with tempfile.TemporaryFile() as exchange:
        request, ask = os.pipe()
        listen, answer = os.pipe()
        child = os.fork()
        if child == 0:
            _serve(subject, exchange, request, answer, (ask, listen))
        os.close(request)
        os.close(answer)
        found = Pristine(exchange, ask, listen)
        try:
            yield found
        finally:
            os.close(ask)
            os.close(listen)
            if found.is_own:
                os.waitpid(child, 0)


def _serve(subject: Any, exchange: Any, requests: int, answers: int, others: tuple[int, int]) -> NoReturn:
    """Runs one task after the other, each in a copy of this process."""
    try:
        for end in others:
            os.close(end)
        _be_silent()
        torch.set_num_threads(1)  # a copy of a process lacks the threads of a pool
        use_openblas()
        while os.read(requests, 1):
            child = os.fork()
            if child == 0:
                _run(subject, exchange)
            _, status = os.waitpid(child, 0)
            os.write(answers, _DONE if status == 0 else _FAILED)
    finally:
        os._exit(0)


def _run(subject: Any, exchange: Any) -> NoReturn:
    code = 1
    own = os.getpid()
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_LONGEST)
        exchange.seek(0)
        task, arguments = torch.load(exchange, weights_only=False)
        result = task(subject, *arguments)
        if os.getpid() == own:  # not a copy of the process, forked by user code
            _write(exchange, (_RESULT, result))
            code = 0
    finally:
        os._exit(code)


def _write(exchange: Any, value: Any) -> None:
    exchange.seek(0)
    exchange.truncate()
    torch.save(value, exchange)
    exchange.flush()


def _be_silent() -> None:
    """Discards the output of user code: it prints the same where torch.export runs it."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the end of the process
    sys.stderr = sys.stdout
