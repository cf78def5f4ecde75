# SPDX-License-Identifier: Apache-2.0
"""Running of code in a child process, so that no way in which user code can end it counts as success."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import FrameType
from typing import Any, Final, NoReturn

from delegatec.cli.isolation import die_with
from delegatec.diagnostics import DelegatecError, Diagnostic

_EXIT_CRASH: Final = 70


class ChildKilledError(Exception):
    """A signal ended the child process."""

    def __init__(self, signum: signal.Signals) -> None:
        super().__init__(signum.name)
        self.signal = signum


def supervised(
    run: Callable[[], int], prepare: Callable[[], None] = lambda: None, *, forward_signals: bool = False
) -> int:
    """Runs a function in a child process.

    Args:
        run: returns an exit code.
        prepare: called first in the child.
        forward_signals: passes termination signals on to the child, so that the caller can clean up.

    Returns:
        The exit code.

    Raises:
        DelegatecError: DC005, user code ended the child before the function returned.
        ChildKilledError: a signal ended it.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _run_child(run, prepare, writer, parent)
    os.close(writer)
    with open(reader, "rb", buffering=0) as answers:
        watching: AbstractContextManager[list[int]]
        watching = _forwarding_signals(child) if forward_signals else nullcontext([])
        with watching as interrupts:
            _, status = os.waitpid(child, 0)
        # A process that the child left behind may hold the other end open: do not wait for its end.
        os.set_blocking(reader, False)
        answer = answers.read(1)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        # An interrupted library may abort.
        raise ChildKilledError(signal.SIGINT if interrupts else signal.Signals(-code))
    if not answer:
        raise DelegatecError([_ended(code)])
    return answer[0]


def _ended(code: int) -> Diagnostic:
    return Diagnostic(
        "DC005",
        f"the model or a plug-in ended the compiler's process, with exit code {code}",
        expected="code that returns or raises an exception",
        help="remove calls such as os._exit and os.exec from the model or plug-in",
    )


def _run_child(run: Callable[[], int], prepare: Callable[[], None], writer: int, parent: int) -> NoReturn:
    own = os.getpid()
    code = _EXIT_CRASH
    try:
        die_with(parent)
        prepare()
        code = run()
    except BaseException:  # noqa: BLE001 - the last resort
        traceback.print_exc()
    finally:
        try:
            code = code if _flushed() else code or _EXIT_CRASH
            if os.getpid() == own:  # not a copy of the process, forked by user code
                with suppress(OSError):  # user code closed all files
                    os.write(writer, bytes([code & 0xFF]))
        finally:  # This copy of the parent ends here, also after an exception.
            # Regular shutdown of torch takes up to a second.
            os._exit(code)


def _flushed() -> bool:
    """Flushes the standard streams; returns whether all output was written."""
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # user code may have replaced it
                stream.flush()
    except Exception:  # noqa: BLE001 - of a stream of user code
        return False
    return True


@contextmanager
def _forwarding_signals(child: int) -> Iterator[list[int]]:
    """Passes termination signals on to the child, and waits for its end; yields the interrupts so far."""
    interrupts: list[int] = []

    def forward(signum: int, _: FrameType | None) -> None:
        os.kill(child, signum)

    def interrupt(signum: int, _: FrameType | None) -> None:
        # A terminal sends SIGINT to both processes. User code or a library may catch the first one.
        interrupts.append(signum)
        if len(interrupts) > 1:
            os.kill(child, signal.SIGKILL)

    wanted: dict[signal.Signals, Any]
    wanted = {signal.SIGTERM: forward, signal.SIGHUP: forward, signal.SIGINT: interrupt}
    before = {
        signum: signal.signal(signum, handler)
        for signum, handler in wanted.items()
        if signal.getsignal(signum) is not signal.SIG_IGN  # as under nohup
    }
    try:
        yield interrupts
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
