# SPDX-License-Identifier: Apache-2.0
"""Tools: programs that a backend runs, such as a vendor's compiler, installed as wheels.

A tool is on the import path: in a build, the rule of the backend adds it (`rules/private/backend_tools.bzl`).
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from delegatec.diagnostics import DelegatecError, Diagnostic

_LOADER: Final = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
"""The host's variables that a program may need to start."""
_KEPT: Final = 64 * 1024
"""The maximum number of bytes of a tool's messages that are kept."""
_MEMORY: Final = min(32 << 30, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
"""The maximum number of bytes that a tool may allocate: no more than the host has."""
_EXHAUSTED: Final = ("MemoryError", "std::bad_alloc", "Cannot allocate memory")
"""Texts in the messages of programs that cannot allocate memory."""


@dataclass(frozen=True)
class Finished:
    """A tool that has ended.

    Attributes:
        status: its exit status; negative if a signal ended it.
        text: its messages.
    """

    status: int
    text: str

    @property
    def ending(self) -> str:
        """How it has ended, for messages."""
        if self.status < 0:
            return f"is ended by {signal.Signals(-self.status).name}"
        return f"fails with status {self.status}"


@dataclass(frozen=True)
class Tool:
    """A program in a wheel.

    Attributes:
        name: for messages.
        package: its top-level module.
        wheel: the requirement that installs it.
    """

    name: str
    package: str
    wheel: str

    def directory(self) -> Path:
        """Returns the directory of the tool's package.

        Raises:
            DelegatecError: DC430 if it is not installed.
        """
        spec = importlib.util.find_spec(self.package)
        found = None if spec is None else spec.submodule_search_locations
        if not found:
            raise DelegatecError(
                [
                    Diagnostic(
                        "DC430",
                        f"{self.name} is not installed",
                        expected=f"the wheel {self.wheel}",
                        help=f"pip install {self.wheel}; in a build, use the rule of the backend",
                    )
                ]
            )
        return Path(found[0]).absolute()

    def run(
        self, command: Sequence[str | Path], folder: Path, seconds: float = 1800, memory: int = _MEMORY
    ) -> Finished:
        """Runs a command in a directory, with a fixed environment, and waits for it.

        Args:
            command: the program and its arguments.
            folder: its working directory, in which it may write.
            seconds: how long it may take.
            memory: how many bytes it may allocate.

        Raises:
            DelegatecError: DC431 if it does not end in time, cannot be started, or runs out of memory.
        """
        environment = {
            **_LOADER,
            "HOME": str(folder),
            "LC_ALL": "C.UTF-8",
            "OMP_NUM_THREADS": "1",
            "PATH": "/nonexistent",
            "PYTHONHASHSEED": "0",
            "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path),
            "TMPDIR": str(folder),
        }
        with (folder / "messages.txt").open("w+b") as messages:
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=messages,
                    stderr=messages,
                    cwd=folder,
                    env=environment,
                    start_new_session=True,
                )
            except OSError as error:
                raise self.failure(f"cannot be started: {error.strerror}", "") from error
            try:
                _limit(process, memory)
                status = process.wait(seconds)
            except subprocess.TimeoutExpired as error:
                raise self.failure(f"has not ended after {seconds:g} s", _tail(messages.fileno())) from error
            finally:
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            finished = Finished(status, _tail(messages.fileno()))
        # The system ends a process by this signal if no memory is left.
        if status == -signal.SIGKILL or (status and any(each in finished.text for each in _EXHAUSTED)):
            raise self.failure(
                f"runs out of memory: the limit is {memory / (1 << 30):.3g} GiB", finished.text
            )
        return finished

    def module(self, module: str) -> list[str]:
        """Returns the start of a command that runs a Python module of the tool."""
        return [sys.executable, "-s", "-P", "-B", "-m", module]

    def failure(self, problem: str, text: str) -> DelegatecError:
        """Returns the error of a tool that failed.

        Args:
            problem: what went wrong, after the tool's name.
            text: its messages.
        """
        lines = [f"  {line}" for line in text.splitlines() if line.strip()]
        return DelegatecError([Diagnostic("DC431", "\n".join([f"{self.name} {problem}", *lines[-12:]]))])


def _limit(process: subprocess.Popen[bytes], memory: int) -> None:
    """Limits the memory of a process that has just been started, only on Linux; never raises a limit."""
    if sys.platform == "linux":
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if hard == resource.RLIM_INFINITY or memory < hard:
            # It may have ended.
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(process.pid, resource.RLIMIT_DATA, (memory, memory))


def _tail(messages: int) -> str:
    size = os.fstat(messages).st_size
    return os.pread(messages, _KEPT, max(0, size - _KEPT)).decode(errors="replace")
