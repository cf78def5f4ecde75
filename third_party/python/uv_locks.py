# SPDX-License-Identifier: Apache-2.0
"""Reads the wheels of one project out of a uv.lock, of version 1, as the lock of `locked_wheels.py`.

The host's Python runs it: it has `tomllib`, and its pip contains `packaging`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pip._vendor.packaging.markers import Marker
from pip._vendor.packaging.specifiers import SpecifierSet
from pip._vendor.packaging.utils import canonicalize_name

from locked_wheels import HASH, Lock, Pin

_VERSION = 1
_INDEX = "https://pypi.org/simple"

# A project of the workspace, which has no wheel.
_PROJECTS = ("virtual", "editable", "directory")


@dataclass(frozen=True)
class Choice:
    """The part of a lock that a model needs.

    Attributes:
        project: its name; empty for the project next to the lock.
        extras: names of its optional dependencies.
        groups: names of its dependency groups, none of which is a default.
    """

    project: str = ""
    extras: Collection[str] = ()
    groups: Collection[str] = ()


class _UnusableError(Exception):
    """What cannot be used, for the user."""


def read_uv_lock(path: Path, shown: str, choice: Choice, markers: Mapping[str, str]) -> Lock:
    """Reads a uv.lock.

    Args:
        path: the file.
        shown: its name in messages.
        choice: the part of it.
        markers: the build's platform.
    """
    try:
        text = path.read_text(encoding="utf-8")
        reader = _Reader(tomllib.loads(text), _lines(text), shown, markers)
        pins = reader.pins(choice)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return Lock({}, [], [f"{shown}: not TOML: {error}"])
    except _UnusableError as error:
        return Lock({}, [], [f"{shown}: {error}"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return Lock({}, [], [f"{shown}: not a lock as uv writes it"])
    if not pins and not reader.problems:
        reader.problems.append(f"{shown}: the project needs no wheels on this platform")
    return Lock(pins, [f"--extra-index-url {index}" for index in sorted(reader.indexes)], reader.problems)


def _lines(text: str) -> list[int]:
    """Returns the line of each `[[package]]`."""
    return [number for number, line in enumerate(text.splitlines(), 1) if line.rstrip() == "[[package]]"]


class _Reader:
    """Collects what a project needs.

    Attributes:
        indexes: addresses of the wheels' indexes, besides PyPI.
        problems: wheels that cannot be used.
    """

    def __init__(
        self, document: dict[str, Any], lines: list[int], shown: str, markers: Mapping[str, str]
    ) -> None:
        if document.get("version") != _VERSION:
            raise _UnusableError(f"of version {document.get('version')}; version {_VERSION} can be read")
        # uv leaves out what it implies from the markers.
        python, known = document.get("requires-python", ""), markers["python_full_version"]
        if known not in SpecifierSet(python):
            raise _UnusableError(f"it is for Python {python}, and the build has {known}")
        if document.get("conflicts"):
            raise _UnusableError("it has conflicting extras; export one choice of them with `uv export`")
        self._packages: list[dict[str, Any]] = document.get("package", [])
        self._locations = {
            id(package): f"{shown}:{line}" for package, line in zip(self._packages, lines, strict=False)
        }
        self._markers = markers
        self.indexes: set[str] = set()
        self.problems: list[str] = []

    def pins(self, choice: Choice) -> dict[str, Pin]:
        """Returns the wheels that a project needs on the build's platform."""
        project = self._project(choice.project)
        pending = [*project.get("dependencies", [])]
        for name in choice.extras:
            pending += self._list(project, "optional-dependencies", "extra", name)
        for name in choice.groups:
            pending += self._list(project, "dev-dependencies", "group", name)
        found: dict[str, Pin] = {}
        seen: set[tuple[int, str]] = set()
        while pending:
            dependency = pending.pop()
            if not _applies(dependency.get("marker", ""), self._markers):
                continue
            package = self._package(dependency)
            for extra in ("", *dependency.get("extra", [])):
                if (id(package), extra) not in seen:
                    seen.add((id(package), extra))
                    optional = package.get("optional-dependencies", {})
                    pending += optional.get(extra, []) if extra else package.get("dependencies", [])
            if not _is_project(package) and package["name"] not in found:
                self._add(package, found)
        return found

    def _project(self, name: str) -> dict[str, Any]:
        projects = [package for package in self._packages if _is_project(package)]
        names = ", ".join(sorted(package["name"] for package in projects)) or "none"
        if name:
            chosen = [each for each in projects if canonicalize_name(each["name"]) == canonicalize_name(name)]
        else:
            chosen = [each for each in projects if "." in each["source"].values()]
            chosen = chosen or (projects if len(projects) == 1 else [])
        if not chosen:
            missing = f"it has no project {name}" if name else "`project` does not name one of its projects"
            raise _UnusableError(f"{missing}; its projects: {names}")
        return chosen[0]

    def _list(self, project: dict[str, Any], key: str, kind: str, name: str) -> list[dict[str, Any]]:
        lists = project.get(key, {})
        by_name = {canonicalize_name(each): value for each, value in lists.items()}
        if canonicalize_name(name) not in by_name:
            known = ", ".join(sorted(lists)) or "none"
            self.problems.append(
                f"{self._locations.get(id(project))}: {project['name']} has no {kind} {name}; it has: {known}"
            )
        return by_name.get(canonicalize_name(name), [])

    def _package(self, dependency: dict[str, Any]) -> dict[str, Any]:
        """Returns what a dependency names. It has a version and a source if the name alone is ambiguous."""
        chosen = [
            package
            for package in self._packages
            if package["name"] == dependency["name"]
            and all(package.get(key) == dependency[key] for key in ("version", "source") if key in dependency)
        ]
        if len(chosen) != 1:
            raise _UnusableError(f"{len(chosen)} packages are {dependency['name']}; lock again")
        return chosen[0]

    def _add(self, package: dict[str, Any], found: dict[str, Pin]) -> None:
        name, version = package["name"], package.get("version", "")
        location = self._locations.get(id(package), "")
        hashes = [wheel.get("hash", "") for wheel in package.get("wheels", [])]
        index = package.get("source", {}).get("registry", _INDEX)
        if not hashes:
            kind = " ".join(package.get("source", {})) or "unknown"
            self.problems.append(f"{location}: {name}: the lock has no wheel of it (source: {kind})")
        elif wrong := [each for each in hashes if not HASH.fullmatch(each)]:
            self.problems.append(f"{location}: {name}: {wrong[0] or 'no hash'}: lock again with hashes")
        else:
            if index != _INDEX and "://" in index:
                self.indexes.add(index)
            text = " ".join([f"{name}=={version}", *(f"--hash={each}" for each in hashes)])
            found[name] = Pin(canonicalize_name(name), version, frozenset(), location, text)


def _is_project(package: dict[str, Any]) -> bool:
    return any(kind in package.get("source", {}) for kind in _PROJECTS)


def _applies(marker: str, markers: Mapping[str, str]) -> bool:
    if not marker:
        return True
    try:
        return Marker(marker).evaluate({**markers})
    except ValueError:  # such as InvalidMarker and UndefinedComparison
        raise _UnusableError(f"the marker {marker} cannot be read") from None
