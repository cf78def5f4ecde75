# SPDX-License-Identifier: Apache-2.0
"""Writes the locks `NAME.lock.txt` from the requirements `NAME.in.txt`: each wheel with its hash and reason.

Usage: python3.11 third_party/python/lock.py [NAME]...

Pip resolves, and its configuration says where from. A requirement that ends in `# without dependencies` is
locked alone. A site that stands on another one is resolved with that one's versions, and its lock has only
what the other has not, so that no package is installed twice.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from install_wheels import PIP_PLATFORM

HERE = Path(__file__).parent
ALONE = "# without dependencies"

# Site -> the sites whose folders are on the path before it. In this order, as a lock is read by later ones.
SITES: dict[str, tuple[str, ...]] = {
    "compiler": (),
    "flatc": (),
    "lint": (),
    "test": ("compiler",),
    "models": ("compiler",),
    "oracle": ("compiler",),
}

HEADER = """\
# Made by third_party/python/lock.py from {source}; edit that one.
"""


@dataclass
class Requirement:
    """One requirement of a site, as its author wrote it."""

    specifier: str
    reason: list[str]
    alone: bool


@dataclass
class Wheel:
    """One wheel of a lock."""

    name: str
    version: str
    sha256: str
    requires: list[str]
    reason: list[str] = field(default_factory=list)

    def lines(self) -> str:
        """The wheel's entry in the lock."""
        return "".join(f"# {line}\n" for line in self.reason) + (
            f"{self.name}=={self.version} --hash=sha256:{self.sha256}\n"
        )


def canonical(name: str) -> str:
    """A distribution's normalised name, by the rule of the core metadata specification."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_requirements(path: Path) -> list[Requirement]:
    """Reads the requirements of a site; the comment above one is its reason."""
    requirements, reason = [], []
    for line in path.read_text().splitlines():
        if line.startswith("# SPDX"):
            continue
        if line.startswith("#"):
            reason.append(line[1:].strip())
        elif line.strip():
            specifier = line.split("#")[0].strip()
            requirements.append(Requirement(specifier, reason, line.endswith(ALONE)))
            reason = []
    return requirements


def locked_versions(site: str) -> dict[str, str]:
    """Name -> version of what a lock has already."""
    lines = (HERE / f"{site}.lock.txt").read_text().splitlines()
    pins = [line.split(" ")[0].split("==") for line in lines if line and not line.startswith("#")]
    return {canonical(name): version for name, version in pins}


def resolve(specifiers: list[str], constraints: dict[str, str], *flags: str) -> list[Wheel]:
    """Lets pip choose wheels for the build's platform, without installing them."""
    if not specifiers:
        return []
    with tempfile.TemporaryDirectory() as folder:
        report, pins = Path(folder) / "report.json", Path(folder) / "constraints.txt"
        pins.write_text("".join(f"{name}=={version}\n" for name, version in constraints.items()))
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", *PIP_PLATFORM]
            + ["--quiet", "--disable-pip-version-check", "--target", folder, "--report", str(report)]
            + ["--constraint", str(pins), *flags, *specifiers],
            check=True,
        )
        return [wheel(entry) for entry in json.loads(report.read_text())["install"]]


def wheel(entry: dict[str, Any]) -> Wheel:
    """One entry of pip's installation report."""
    metadata, download = entry["metadata"], entry["download_info"]
    sha256 = download.get("archive_info", {}).get("hashes", {}).get("sha256")
    if sha256 is None:
        # Pip reports no hash for a file of a local folder.
        path = urllib.parse.unquote(urllib.parse.urlparse(download["url"]).path)
        sha256 = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    required = [text for text in metadata.get("requires_dist", []) if "extra ==" not in text]
    names = [canonical(re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0]) for text in required]
    return Wheel(canonical(metadata["name"]), metadata["version"], sha256, names)


def add_reasons(wheels: dict[str, Wheel], requirements: list[Requirement]) -> None:
    """Gives each wheel the author's reason, or names the wheels that ask for it."""
    reasons = {canonical(re.split(r"[=<>!~\[]", item.specifier)[0]): item.reason for item in requirements}
    for name, found in wheels.items():
        found.reason = reasons.get(name) or [
            "For " + ", ".join(other.name for other in wheels.values() if name in other.requires) + "."
        ]


def lock(site: str) -> None:
    """Writes the lock of one site."""
    source = HERE / f"{site}.in.txt"
    requirements = read_requirements(source)
    below: dict[str, str] = {}
    for base in SITES[site]:
        below |= locked_versions(base)
    together = resolve([item.specifier for item in requirements if not item.alone], below)
    alone = resolve([item.specifier for item in requirements if item.alone], below, "--no-deps")
    wheels = {found.name: found for found in sorted(together + alone, key=lambda found: found.name)}
    add_reasons(wheels, requirements)
    lines = [found.lines() for name, found in wheels.items() if name not in below]
    (HERE / f"{site}.lock.txt").write_text(HEADER.format(source=source.name) + "".join(lines))
    print(f"{site}: {len(lines)} wheels")


def main() -> None:
    chosen = sys.argv[1:] or list(SITES)
    for site in SITES:
        if site in chosen:
            lock(site)


if __name__ == "__main__":
    main()
