# SPDX-License-Identifier: Apache-2.0
"""nginx as an HTTP cache of Bazel, on the loopback interface."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_CONFIGURATION: Final = """\
daemon off;
# One process, which a test can kill, and which writes as its user.
master_process off;
pid {folder}/pid;
events {{}}
http {{
  access_log {folder}/access.log;
  {other_paths}
{site}
}}
"""
_OTHERS: Final = ("fastcgi", "proxy", "scgi", "uwsgi")
_SECONDS_TO_START: Final = 60


def program(folder: Path) -> str:
    """Returns the path of nginx: the host's, or Debian's package in `folder`, which is not installed.

    Raises:
        FileNotFoundError: this host has neither nginx nor a package of it that runs here; says why.
    """
    installed = shutil.which("nginx", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    if installed is not None:
        return installed
    extracted = folder / "root/usr/sbin/nginx"
    for command in (
        ["apt-get", "download", "nginx"],
        ["sh", "-c", "exec dpkg-deb -x nginx_*.deb root"],
        [str(extracted), "-v"],
    ):
        try:
            subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        except OSError as error:
            raise FileNotFoundError(f"nginx is not installed, nor its package: {error}") from error
        except subprocess.CalledProcessError as error:
            raise FileNotFoundError(f"nginx is not installed: {error}: {error.stderr.strip()}") from error
    return str(extracted)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _site(page: str, port: int, cache: Path) -> str:
    """Returns the configuration of the page, with another address and directory."""
    site = page.split("```nginx\n")[1].split("```")[0]
    assert site.count("listen 8080;") == 1
    assert "root /srv/bazel-cache;" in site
    return site.replace("8080", f"127.0.0.1:{port}").replace("/srv/bazel-cache", str(cache))


class Server:
    """A running nginx.

    Attributes:
        address: the value for `--remote_cache`.
    """

    def __init__(self, path: str, folder: Path, page: str) -> None:
        """Starts nginx with an empty cache.

        Args:
            path: of the program.
            folder: an empty directory, for the cache and logs.
            page: the text of docs/caching.md, which shows the configuration.

        Raises:
            RuntimeError: it does not start; with its log.
        """
        port = _free_port()
        self._folder = folder
        self.address = f"http://127.0.0.1:{port}"
        (folder / "cache").mkdir()
        (folder / "nginx.conf").write_text(
            _CONFIGURATION.format(
                folder=folder,
                other_paths="\n  ".join(f"{name}_temp_path {folder}/{name};" for name in _OTHERS),
                site=_site(page, port, folder / "cache"),
            )
        )
        log = folder / "error.log"
        self._process = subprocess.Popen([path, "-p", folder, "-e", log, "-c", folder / "nginx.conf"])
        deadline = time.monotonic() + _SECONDS_TO_START
        while not _listens(port):
            if not self.runs() or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"nginx does not start: {log.read_text()}")
            time.sleep(0.1)

    def requests(self, method: str) -> list[int]:
        """Returns the status of each request with an HTTP method, from the log."""
        lines = (self._folder / "access.log").read_text().splitlines()
        return [int(line.split('" ')[1].split()[0]) for line in lines if f'"{method} ' in line]

    def runs(self) -> bool:
        """Whether nginx runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kills nginx, if it still runs."""
        self._process.kill()
        self._process.wait()


@contextmanager
def running(path: str, folder: Path, page: str) -> Iterator[Server]:
    """An nginx that ends with the block; for the arguments, see `Server`."""
    server = Server(path, folder, page)
    try:
        yield server
    finally:
        server.kill()
