# SPDX-License-Identifier: Apache-2.0
"""Behavior of a build when the server, or the process of an action, is killed while an action runs."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeVar

from nested_bazel import NestedBazel

from tests.remote.client import Built, attempt
from tests.remote.engine import Engine

# One action that runs for seconds.
TARGET: Final = "//many:net"
_INTERPRETER: Final = b"delegatec_python/bin/python3"
_STARTED_SECONDS: Final = 300
_DOWN_SECONDS: Final = 2


@dataclass(frozen=True)
class Failure:
    """What is killed, and how the build ends.

    Attributes:
        killed: a description.
        flags: flags of the build.
        built: the build.
        again: the same build, repeated with a server.
    """

    killed: str
    flags: tuple[str, ...]
    built: Built
    again: Built

    @property
    def message(self) -> str:
        """The error that Bazel prints; empty if the build succeeds."""
        found = re.search(r"(?m)^ERROR: \S+ (.*)$", self.built.log)
        return found[1] if found else ""


def parent(process: int) -> int:
    """Returns the parent of a process.

    Raises:
        OSError: it has ended.
    """
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def descends(process: int, ancestor: int) -> bool:
    """Whether a process is a descendant of another one."""
    while process > 1:
        process = parent(process)
        if process == ancestor:
            return True
    return False


class Host(Protocol):
    """A server or worker that runs actions."""

    @property
    def process(self) -> int:
        """Its process."""


Busy = TypeVar("Busy", bound=Host)


def actions(host: Host) -> Iterator[int]:
    """Yields the processes in which actions of a server or worker run the compiler."""
    for path in Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        with suppress(OSError):
            command = (path / "cmdline").read_bytes().split(b"\0")
            if command[0].endswith(_INTERPRETER) and descends(int(path.name), host.process):
                yield int(path.name)


def wait_for_action(*hosts: Busy) -> tuple[Busy, int]:
    """Returns the first host that runs an action, and the action's process, once it has run for a second.

    Raises:
        TimeoutError: none runs.
    """
    end = time.monotonic() + _STARTED_SECONDS
    while time.monotonic() < end:
        for host in hosts:
            for process in actions(host):
                time.sleep(1)
                return host, process
        time.sleep(0.05)
    raise TimeoutError("no action runs")


def kill_action(engine: Engine) -> None:
    """Kills the process of an action; the server remains."""
    _, process = wait_for_action(engine)
    os.kill(process, signal.SIGKILL)


def kill_server(engine: Engine) -> None:
    """Kills the server, which does not return."""
    wait_for_action(engine)
    engine.kill()


def restart_server(engine: Engine) -> None:
    """Kills the server and starts it again."""
    kill_server(engine)
    time.sleep(_DOWN_SECONDS)
    engine.start()


CASES: Final[tuple[tuple[str, Callable[[Engine], None], tuple[str, ...]], ...]] = (
    ("the action's process", kill_action, ()),
    ("the server", kill_server, ()),
    ("the server", kill_server, ("--remote_local_fallback", "--remote_download_outputs=all")),
    ("the server", kill_server, ("--remote_local_fallback", "--remote_download_toplevel")),
    ("the server, back after 2 s", restart_server, ()),
    ("the server, back after 2 s", restart_server, ("--experimental_remote_execution_keepalive",)),
    ("the server, back after 2 s", restart_server, ("--remote_local_fallback",)),
)


def failures(bazel: NestedBazel, engine: Engine) -> Iterator[Failure]:
    """Runs CASES, each with an action that the cache does not serve.

    Raises:
        TimeoutError: a build runs no action; with its log.
    """
    remote = f"--remote_executor={engine.address}"
    for killed, kill, flags in CASES:
        bazel.run("clean")
        with ThreadPoolExecutor(1) as pool:
            building = pool.submit(attempt, bazel, [TARGET], remote, "--noremote_accept_cached", *flags)
            try:
                kill(engine)
            except TimeoutError as error:
                raise TimeoutError(f"{error}\n{building.result().log}") from error
            built = building.result()
        engine.start()
        again = attempt(bazel, [TARGET], remote, "--noremote_accept_cached")
        yield Failure(killed, flags, built, again)
