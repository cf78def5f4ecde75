# SPDX-License-Identifier: Apache-2.0
"""A cluster on the loopback interface: BuildGrid with PostgreSQL, and workers of BuildBox.

Each worker has a proxy of the store, which keeps the inputs of its actions.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from nested_bazel import real_path

from tests.remote import engine
from tests.remote.engine import can_mount, prepare_sandbox, search_path, server_folder, unmount_below
from tests.remote.services import Service, free_port

# PostgreSQL refuses to run as root.
_POSTGRES_USER: Final = "postgres" if os.geteuid() == 0 else None
_POSTGRES_SECONDS: Final = 60
_DATABASE: Final = "bgd"
_SCHEDULER: Final = "from buildgrid.server.app import cli; cli()"

# How long an action of a dead worker waits.
KEEPALIVE_SECONDS: Final = 20

# The first upload has many parallel calls.
_CONFIGURATION: Final = """\
server:
  - !channel
    address: 127.0.0.1:%(port)d
    insecure-mode: true
authorization:
  method: none
connections:
  - !sql-connection &sql
    connection-string: %(database)s
    pool-size: 40
    max-overflow: 40
storages:
  - !disk-storage &store
    path: %(folder)s/store
caches:
  - !lru-action-cache &actions
    storage: *store
    max-cached-refs: 100000
    allow-updates: true
    cache-failed-actions: false
schedulers:
  - !sql-scheduler &scheduler
    sql: *sql
    action-cache: *actions
    storage: *store
    bot-session-keepalive-timeout: %(keepalive)d
    property-set: !dynamic-property-set
      match-property-keys: [Pool]
      wildcard-property-keys: [container-image]
    assigners:
      - !priority-age-assigner
        count: 1
        interval: 0.2
instances:
  - name: ''
    services:
      - !action-cache
        cache: *actions
      - !execution
        scheduler: *scheduler
      - !cas
        storage: *store
      - !bytestream
        storage: *store
thread-pool-size: 200
"""


def postgres_program(name: str) -> Path | None:
    """Returns a program of PostgreSQL; None if it is not installed."""
    # Debian's programs on the PATH are wrappers for its own clusters.
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = installed[-1] if installed else shutil.which(name)
    return Path(found).resolve() if found else None


def worker_program() -> Path:
    """Returns the path of buildbox-worker, which may not exist."""
    return real_path("delegatec_buildbox_worker/root/README").parent / "usr/bin/buildbox-worker"


def missing() -> str:
    """Returns why there is no cluster on this machine; empty if there is one."""
    reason = worker_program().parents[2] / "missing.txt"
    if reason.exists():
        return reason.read_text()
    if not postgres_program("initdb"):
        return "PostgreSQL is not installed: apt-get install postgresql"
    return engine.missing()


class Database:
    """PostgreSQL with an empty database.

    Attributes:
        connection: how SQLAlchemy connects.
    """

    def __init__(self) -> None:
        # In a directory that its user can reach.
        self._folder = Path(tempfile.mkdtemp(prefix="delegatec-postgres-"))
        if _POSTGRES_USER:
            shutil.chown(self._folder, _POSTGRES_USER, _POSTGRES_USER)
        self.connection = f"postgresql+psycopg2://{_DATABASE}@/{_DATABASE}?host={self._folder}"
        options = {"listen_addresses": "", "max_connections": 300, "unix_socket_directories": self._folder}
        settings = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        command = [str(postgres_program("postgres")), "-D", f"{self._folder}/data", *settings]
        self._service = Service(command, self._folder / "log", user=_POSTGRES_USER)

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(postgres_program(program)), *arguments]
        return subprocess.run(
            command, cwd="/", user=_POSTGRES_USER, capture_output=True, text=True, check=False
        )

    def start(self) -> None:
        """Creates the database and starts the server.

        Raises:
            AssertionError: it does not start in time.
        """
        # BuildGrid stores text that other encodings reject.
        created = self._run(
            "initdb", "-D", f"{self._folder}/data", "-E", "UTF8", "-A", "trust", "-U", _DATABASE
        )
        assert created.returncode == 0, created.stderr
        self._service.start()
        end = time.monotonic() + _POSTGRES_SECONDS
        while (done := self._run("createdb", "-h", str(self._folder), "-U", _DATABASE, _DATABASE)).returncode:
            assert time.monotonic() < end, done.stderr
            time.sleep(0.2)

    def stop(self) -> None:
        """Stops the server and removes its files."""
        self._service.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


class Worker:
    """A worker that runs one action at a time.

    Attributes:
        name: as the scheduler knows it.
    """

    def __init__(self, name: str, scheduler: str, folder: Path, sandbox: Sequence[str]) -> None:
        """Prepares a worker.

        Args:
            name: as the scheduler shall know it.
            scheduler: the address of the scheduler.
            folder: directory for the worker's files.
            sandbox: arguments, as from `prepare_sandbox`.
        """
        self.name = name
        folder.mkdir()
        path = search_path(mounts=can_mount())
        port = free_port()
        proxy = [server_folder() / "buildbox-casd", f"--bind=127.0.0.1:{port}", f"--cas-remote={scheduler}"]
        self._proxy = Service([*proxy, folder / "cache"], folder / "proxy.log", port, path)
        worker = [worker_program(), f"--bots-remote={scheduler}", f"--cas-remote=http://127.0.0.1:{port}"]
        worker += [*sandbox, "--max-wait-time=5", name]
        self._worker = Service(worker, folder / "worker.log", environment=path)

    @property
    def process(self) -> int:
        """The process that runs actions."""
        return self._worker.process

    def start(self) -> None:
        """Starts it, unless it runs."""
        self._proxy.start()
        self._worker.start()

    def stop(self) -> None:
        """Asks it to end, and waits until it has."""
        self._worker.stop()
        self._proxy.stop()

    def kill(self) -> None:
        """Kills it with its action and its proxy, as if its machine had lost power."""
        self._worker.kill(group=True)
        self._proxy.kill(group=True)


class Cluster:
    """A scheduler with its store, and workers.

    Attributes:
        address: the value of `--remote_executor`.
        workers: they do not run, unless they are started.
    """

    def __init__(self, folder: Path, workers: int) -> None:
        """Prepares a cluster with an empty store.

        Args:
            folder: directory for its files.
            workers: their number.
        """
        folder.mkdir(parents=True)
        port = free_port()
        self.address = f"grpc://127.0.0.1:{port}"
        self._folder = folder
        self._database = Database()
        values = {"database": self._database.connection, "folder": folder, "port": port}
        (folder / "bgd.yml").write_text(_CONFIGURATION % (values | {"keepalive": KEEPALIVE_SECONDS}))
        self._program = [real_path("delegatec_python/bin/python3"), "-s", "-P", "-B", "-c", _SCHEDULER]
        site = real_path("delegatec_buildgrid/site-packages.manifest").with_name("site-packages")
        self._environment = {"PYTHONPATH": str(site)}
        start = [*self._program, "server", "start", folder / "bgd.yml"]
        self._scheduler = Service(start, folder / "log", port, self._environment)
        sandbox = prepare_sandbox(folder)
        scheduler = f"http://127.0.0.1:{port}"
        self.workers = [
            Worker(f"worker{number}", scheduler, folder / f"worker{number}", sandbox)
            for number in range(workers)
        ]

    def start(self) -> None:
        """Starts the database and the scheduler, but no worker."""
        self._database.start()
        migrate = [*self._program, "migrate", "apply", self._database.connection]
        subprocess.run(migrate, env=os.environ | self._environment, check=True, capture_output=True)
        self._scheduler.start()

    def stop(self) -> None:
        """Stops everything."""
        for worker in self.workers:
            worker.stop()
        self._scheduler.stop()
        self._database.stop()
        unmount_below(self._folder)


@contextmanager
def running_cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """A cluster with an empty store and without running workers, which ends with the block."""
    cluster = Cluster(folder, workers)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
