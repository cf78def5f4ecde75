# SPDX-License-Identifier: Apache-2.0
"""Downloads packages of Debian's unstable distribution with an apt that has its own configuration and state.

The host's packages do not change: apt thinks that nothing is installed. It checks the distribution's
signature.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

_KEYRING: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"
_CONFIGURATION: Final = """\
Dir "{folder}";
Dir::Cache "{folder}";
Dir::State "{folder}";
Dir::State::status "{folder}/status";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
APT::Sandbox::User "";
Debug::NoLocking "true";
"""
# A package, or on a separate line one that provides a virtual package.
_DEPENDS: Final = re.compile(r"^(?:\s*\|?(?:Pre)?Depends: |    )(\S+)$", re.MULTILINE)

# Bazel's parts, Java libraries and shared libraries. Compilers, interpreters and headers are the host's.
_WANTED: Final = re.compile(r"(?:bazel-|lib|zlib1g$|velocity$|async-profiler-java$).*(?<!-dev)(?<!-perl)\Z")


class UnavailableError(Exception):
    """The packages cannot be had. The text is the reason."""


def _run(command: Iterable[str | Path], environment: Mapping[str, str], folder: Path) -> str:
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        words = " ".join(map(str, command))[:80]
        raise UnavailableError(f"{words} fails: {(done.stderr or done.stdout).strip()}")
    return done.stdout


class Distribution:
    """The unstable distribution, as of now.

    Args:
        folder: an empty directory for apt's state and the downloaded packages.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        for name in ("etc/apt/apt.conf.d", "etc/apt/preferences.d", "lists/partial", "archives/partial"):
            (self._folder / name).mkdir(parents=True)
        (self._folder / "status").touch()
        (self._folder / "apt.conf").write_text(_CONFIGURATION.format(folder=self._folder))
        sources = f"deb [signed-by={_KEYRING}] {self._mirror()} sid main\n"
        (self._folder / "etc/apt/sources.list").write_text(sources)
        self._environment = {
            "APT_CONFIG": str(self._folder / "apt.conf"),
            "LC_ALL": "C.UTF-8",
            "PATH": os.environ["PATH"],
        }
        _run(["apt-get", "update", "--quiet", "--error-on=any"], self._environment, self._folder)

    def version(self, package: str) -> str:
        """Returns the version of a package, such as "7.7.1+ds-8"; empty if there is no such package."""
        text = _run(["apt-cache", "policy", package], self._environment, self._folder)
        found = re.search(r"Candidate: (\S+)", text)
        return found[1] if found and found[1] != "(none)" else ""

    def depends(self, *packages: str) -> list[str]:
        """Returns the packages that others depend on directly, alternatives included."""
        options = [f"--no-{kind}" for kind in ("recommends", "suggests", "conflicts", "breaks", "replaces")]
        command = ["apt-cache", "depends", "--no-enhances", *options, *packages]
        return sorted(set(_DEPENDS.findall(_run(command, self._environment, self._folder))))

    def libraries(self, packages: Iterable[str]) -> set[str]:
        """Returns the packages, and the libraries that they depend on, directly or not."""
        found: set[str] = set()
        fresh = set(packages)
        while fresh:
            found |= fresh
            fresh = {name for name in self.depends(*sorted(fresh)) if _WANTED.match(name)} - found
        return found

    def extract(self, packages: Iterable[str], root: Path) -> None:
        """Downloads packages, and extracts their files into a directory."""
        downloads = self._folder / "downloads"
        downloads.mkdir()
        _run(["apt-get", "download", "--quiet", *sorted(packages)], self._environment, downloads)
        for package in sorted(downloads.glob("*.deb")):
            _run(["dpkg-deb", "--extract", package, root.resolve()], self._environment, downloads)
            package.unlink()

    def _mirror(self) -> str:
        """The mirror that the host's apt uses."""
        command = ["apt-get", "indextargets", "--format", "$(REPO_URI)"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        mirrors = [line for line in done.stdout.splitlines() if line.rstrip("/").endswith("/debian")]
        if not mirrors:
            raise UnavailableError("the host's apt has no mirror of Debian")
        return mirrors[0]
