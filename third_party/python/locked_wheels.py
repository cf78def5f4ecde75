# SPDX-License-Identifier: Apache-2.0
"""Reads locks of wheels: requirements files, as pip-compile, uv and lock.py write them.

The host's Python runs it, before the build's wheels exist: it has pip, and pip contains `packaging`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pip._vendor.packaging.requirements import InvalidRequirement, Requirement
from pip._vendor.packaging.utils import canonicalize_name

# Options for pip that a lock may have on separate lines, and whether a path or address follows.
INDEX_OPTIONS = {
    "--extra-index-url": True,
    "--find-links": True,
    "--index-url": True,
    "--no-index": False,
    "--pre": False,
    "--prefer-binary": False,
    "--require-hashes": False,
    "--trusted-host": True,
    "-f": True,
    "-i": True,
}

# The algorithms that pip accepts.
HASH = re.compile(r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}")


@dataclass(frozen=True)
class Pin:
    """One wheel of a lock.

    Attributes:
        name: normalized name of the distribution.
        version: its version.
        extras: the extras that the lock names.
        location: `file:line` in the lock, for messages.
        text: the requirement with its hashes, on one line.
    """

    name: str
    version: str
    extras: frozenset[str]
    location: str
    text: str


@dataclass(frozen=True)
class Lock:
    """A requirements file.

    Attributes:
        pins: its wheels for the build's platform, by name.
        options: lines with options for pip, with absolute paths.
        problems: what cannot be used, one text per line of the file.
    """

    pins: dict[str, Pin]
    options: list[str]
    problems: list[str]


def read_lock(path: Path, shown: str, markers: Mapping[str, str]) -> Lock:
    """Reads a lock.

    Args:
        path: the file.
        shown: its name in messages.
        markers: the build's platform: pip would apply the lock's markers for the Python that runs it.
    """
    pins: dict[str, Pin] = {}
    options, problems = [], []
    try:
        lines = [*_logical_lines(path.read_text(encoding="utf-8-sig"))]
    except UnicodeDecodeError:
        return Lock({}, [], [f"{shown}: not a text in UTF-8, but perhaps in UTF-16, of a shell on Windows"])
    if not lines:
        problems.append(f"{shown}: no wheels; a line of a lock is NAME==VERSION --hash=sha256:...")
    for number, line in lines:
        location = f"{shown}:{number}"
        if line.startswith("-"):
            option = _option(line, path.parent)
            if option is None:
                problems.append(
                    f"{location}: {line}: a lock is one file of pinned wheels, without this option"
                )
            else:
                options.append(option)
            continue
        pin, problem = _pin(line, location, markers)
        if problem:
            problems.append(problem)
        elif pin is not None:
            before = pins.setdefault(pin.name, pin)
            if before.version != pin.version:
                problems.append(
                    f"{location}: {pin.name}=={pin.version}: {before.location} pins version {before.version}"
                )
    return Lock(pins, options, problems)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields each requirement or option with the number of its first line; joins continued lines."""
    joined, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        first = first if joined else number
        content = re.sub(r"(^|\s)#.*$", "", line).strip()
        joined += content.removesuffix("\\")
        if content.endswith("\\"):
            continue
        if joined.strip():
            yield first, " ".join(joined.split())
        joined = ""
    if joined.strip():
        yield first, " ".join(joined.split())


def _option(line: str, folder: Path) -> str | None:
    """Returns an option for pip with absolute paths; None if a lock may not have it."""
    name, *rest = re.split(r"[= ]", line, maxsplit=1)
    if name not in INDEX_OPTIONS or INDEX_OPTIONS[name] != bool(rest):
        return None
    if name in ("--find-links", "-f") and "://" not in rest[0]:
        return f"--find-links {shlex.quote(str(folder / rest[0]))}"
    return line


def _pin(line: str, location: str, markers: Mapping[str, str]) -> tuple[Pin | None, str]:
    """Returns a wheel and the problem with it; neither if it is for another platform."""
    specifier, *hashes = re.split(r"\s+--hash[= ]", line)
    try:
        requirement = Requirement(specifier)
    except InvalidRequirement:
        return None, f"{location}: {specifier}: not a requirement"
    if requirement.marker is not None and not requirement.marker.evaluate({**markers}):
        return None, ""
    exact = [each for each in requirement.specifier if each.operator in ("==", "===")]
    if requirement.url or len(exact) != 1 or exact[0].version.endswith(".*"):
        return None, f"{location}: {specifier}: not locked to a version"
    if not hashes:
        return None, f"{location}: {specifier}: not locked to a hash"
    if wrong := [each for each in hashes if not HASH.fullmatch(each)]:
        return (
            None,
            f"{location}: {specifier}: {wrong[0]} is not a hash, such as sha256:01ab...",
        )
    text = " ".join([f"{requirement.name}=={exact[0].version}", *(f"--hash={each}" for each in hashes)])
    name = canonicalize_name(requirement.name)
    return Pin(name, exact[0].version, frozenset(requirement.extras), location, text), ""
