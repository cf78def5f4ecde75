# SPDX-License-Identifier: Apache-2.0
"""A remote execution server on the loopback interface: content store, action cache, execution in one process.

Its actions see their declared inputs and the files of `worker_image`, and have no network.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from nested_bazel import real_path

from tests.remote.worker_image import FOLDERS, assemble

_ROOT: Final = "delegatec_buildbox/root"
_INTERPRETER: Final = "delegatec_python/bin/python3"
_START_SECONDS: Final = 30

# The runner is older than the server, and rejects two of its arguments.
_RUNNER: Final = """\
#!/bin/sh
for argument; do
  shift
  case $argument in
    --digest-function=* | --partial-execution-metadata-file=*) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec %s/runner/buildbox-run "$@"
"""


def programs() -> Path:
    """The directory of the server's programs."""
    return real_path(f"{_ROOT}/README").parent


def missing() -> str:
    """Returns why there is no server on this machine; empty if there is one."""
    reason = programs() / "missing.txt"
    if reason.exists():
        return reason.read_text()
    sandbox = [programs() / "bubblewrap" / "bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/"]
    tried = subprocess.run([*sandbox, "true"], capture_output=True, text=True, check=False)
    return f"bubblewrap cannot make namespaces here: {tried.stderr.strip()}" if tried.returncode else ""


def free_port() -> int:
    """Returns a port of the loopback interface that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def mounts_below(folder: Path) -> list[str]:
    """Returns the mounted directories below a directory: a killed server leaves inputs of actions mounted."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if Path(point).is_relative_to(folder)]


class Engine:
    """A server that can be stopped, killed and started again; it keeps its address and its cache.

    Attributes:
        address: the value of `--remote_executor`.
        folder: directory with the cache, the log and the worker's image.
        mounts: whether inputs of actions are mounted with FUSE, not copied, which needs a writable /dev/fuse.
    """

    def __init__(self, folder: Path, mounts: bool | None = None, jobs: int = 2) -> None:
        """Prepares a server with an empty cache; `start` starts it.

        Args:
            folder: directory for its files.
            mounts: whether to mount inputs; by default, if the machine can.
            jobs: number of actions that run at a time.
        """
        self.folder = folder
        self.mounts = os.access("/dev/fuse", os.W_OK) if mounts is None else mounts
        self._jobs = jobs
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"grpc://127.0.0.1:{self._port}"
        assemble(folder / "image", real_path(_INTERPRETER))
        runner = folder / "runner"
        runner.write_text(_RUNNER % programs())
        runner.chmod(0o755)

    @property
    def process(self) -> int:
        """The server's process, while it runs."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Starts the server, unless it runs, and waits until it listens.

        Raises:
            AssertionError: it ends, or does not listen in time; with its log.
        """
        if self._process is not None:
            return
        binds = [f"--runner-arg=--bind-mount={self.folder}/image/{name}:/{name}" for name in FOLDERS]
        path = [os.environ["PATH"], str(programs() / "bubblewrap")]
        if self.mounts:
            path.append(str(programs() / "server"))
        server = programs() / "server" / "buildbox-casd"
        log = self.folder / "log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [server, f"--bind=127.0.0.1:{self._port}", f"--buildbox-run={self.folder}/runner", *binds]
                + [f"--jobs={self._jobs}", self.folder / "cache"],
                env=os.environ | {"PATH": os.pathsep.join(path)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        end = time.monotonic() + _START_SECONDS
        while not self._listens():
            assert self._process.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.02)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait()

    def stop(self) -> None:
        """Asks the server to end, and waits until it and what killed servers have left behind are gone."""
        self._end(signal.SIGTERM)
        for mount in mounts_below(self.folder):
            # Its process ends with it.
            subprocess.run(["umount", "--lazy", mount], check=False)

    def kill(self) -> None:
        """Kills the server, which cannot finish anything."""
        self._end(signal.SIGKILL)


@contextmanager
def running(folder: Path, mounts: bool | None = None) -> Iterator[Engine]:
    """A server with an empty cache, which ends with the block; its files are removed."""
    engine = Engine(folder, mounts)
    engine.start()
    try:
        yield engine
    finally:
        engine.stop()
        shutil.rmtree(folder, ignore_errors=True)
