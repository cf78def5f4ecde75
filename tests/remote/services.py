# SPDX-License-Identifier: Apache-2.0
"""Processes of a server: started, stopped, killed and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_START_SECONDS: Final = 60


def free_port() -> int:
    """Returns a port of the loopback interface that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Service:
    """A process with a log that runs until it is stopped.

    Attributes:
        port: the port of the loopback interface on which it listens; None if it does not.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> None:
        """Describes the process; `start` starts it.

        Args:
            command: its arguments.
            log: the file to which its output is appended.
            port: the port on which it listens.
            environment: variables to set, besides those of this process.
            user: the user of the process, by default this one's.
        """
        self.port = port
        self._command = command
        self._environment = os.environ | (environment or {})
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._user = user

    @property
    def process(self) -> int:
        """The process, while it runs."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Starts the process, unless it runs, and waits until it listens.

        Raises:
            AssertionError: it ends, or does not listen in time; with its log.
        """
        if self._process is not None:
            return
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                user=self._user,
                group=self._user,
                extra_groups=None if self._user is None else [],
            )
        end = time.monotonic() + _START_SECONDS
        while not self._listens():
            assert self._process.poll() is None and time.monotonic() < end, self._log.read_text()
            time.sleep(0.02)

    def _listens(self) -> bool:
        if self.port is None:
            return True
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        """Asks the process to end, and waits until it has."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            process.wait()

    def kill(self, *, group: bool = False) -> None:
        """Kills the process, which cannot finish anything; with `group`, also those that it has started."""
        process, self._process = self._process, None
        if process is not None:
            if group:
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.wait()
