# SPDX-License-Identifier: Apache-2.0
"""A remote execution server on the loopback interface: content store, action cache, execution in one process.

Its actions see their declared inputs and the files of `worker_image`, and have no network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from nested_bazel import real_path

from tests.remote.services import Service, free_port
from tests.remote.worker_image import FOLDERS, assemble

_ROOT: Final = "delegatec_buildbox/root"
_INTERPRETER: Final = "delegatec_python/bin/python3"

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


def mounts_below(folder: Path) -> list[str]:
    """Returns the mounted directories below a directory: a killed server leaves inputs of actions mounted."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if Path(point).is_relative_to(folder)]


def prepare_sandbox(folder: Path, libraries: Iterable[str] = ()) -> list[str]:
    """Writes the files that a server or worker needs to run actions.

    Args:
        folder: an existing directory for the worker's image and the runner.
        libraries: names of libraries that the image has besides those that each worker needs.

    Returns:
        Arguments of the server or worker.
    """
    assemble(folder / "image", real_path(_INTERPRETER), libraries)
    runner = folder / "runner"
    runner.write_text(_RUNNER % programs())
    runner.chmod(0o755)
    binds = [f"--runner-arg=--bind-mount={folder}/image/{name}:/{name}" for name in FOLDERS]
    return [f"--buildbox-run={runner}", *binds]


def search_path(*, mounts: bool) -> dict[str, str]:
    """Returns the variable PATH with the sandbox and, to mount inputs, the server's programs."""
    folders = [
        os.environ["PATH"],
        str(programs() / "bubblewrap"),
        *([str(server_folder())] if mounts else []),
    ]
    return {"PATH": os.pathsep.join(folders)}


def server_folder() -> Path:
    """The directory of buildbox-casd, and of the program with which it mounts inputs."""
    return programs() / "server"


def can_mount() -> bool:
    """Whether inputs can be mounted with FUSE on this machine."""
    return os.access("/dev/fuse", os.W_OK)


def unmount_below(folder: Path) -> None:
    """Unmounts the mounts that killed servers have left; the processes that serve them end."""
    for mount in mounts_below(folder):
        subprocess.run(["umount", "--lazy", mount], check=False)


class Engine:
    """A server that can be stopped, killed and started again; it keeps its address and its cache.

    Attributes:
        address: the value of `--remote_executor`.
        folder: directory with the cache, the log and the worker's image.
        mounts: whether inputs of actions are mounted with FUSE, not copied, which needs a writable /dev/fuse.
    """

    def __init__(
        self, folder: Path, mounts: bool | None = None, libraries: Iterable[str] = (), jobs: int = 2
    ) -> None:
        """Prepares a server with an empty cache; `start` starts it.

        Args:
            folder: directory for its files.
            mounts: whether to mount inputs; by default, if the machine can.
            libraries: as of `prepare_sandbox`.
            jobs: number of actions that run at a time.
        """
        self.folder = folder
        self.mounts = can_mount() if mounts is None else mounts
        port = free_port()
        self.address = f"grpc://127.0.0.1:{port}"
        folder.mkdir(parents=True)
        command = [
            server_folder() / "buildbox-casd",
            f"--bind=127.0.0.1:{port}",
            *prepare_sandbox(folder, libraries),
        ]
        command += [f"--jobs={jobs}", folder / "cache"]
        self._service = Service(command, folder / "log", port, search_path(mounts=self.mounts))

    @property
    def process(self) -> int:
        """The server's process, while it runs."""
        return self._service.process

    def start(self) -> None:
        """Starts the server, unless it runs, and waits until it listens."""
        self._service.start()

    def stop(self) -> None:
        """Asks the server to end, and waits until it and what killed servers have left behind are gone."""
        self._service.stop()
        unmount_below(self.folder)

    def kill(self) -> None:
        """Kills the server, which cannot finish anything."""
        self._service.kill()


@contextmanager
def running(folder: Path, mounts: bool | None = None, libraries: Iterable[str] = ()) -> Iterator[Engine]:
    """A server with an empty cache, which ends with the block; its files are removed."""
    engine = Engine(folder, mounts, libraries)
    engine.start()
    try:
        yield engine
    finally:
        engine.stop()
        shutil.rmtree(folder, ignore_errors=True)
