# SPDX-License-Identifier: Apache-2.0
"""Finds what keeps a team's wheels from running in one process with the compiler's.

Each function returns texts, one per problem: the wheel, what is wrong, and the versions on both sides.
"""

from __future__ import annotations

import email.parser
import email.policy
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name
from pip._vendor.packaging.version import Version

from locked_wheels import Pin

# Distributions that exist for GPUs only.
_GPU = re.compile(r"(nvidia|cuda|cupy)(-.+)?|(pytorch-)?triton(-.+)?|.+-cu1\d")
# Local versions of builds for GPUs, such as 2.13.0+cu130.
_GPU_BUILD = re.compile(r"cu\d+|rocm.*|xpu")
# Libraries of torch's builds for GPUs, as names in the dynamic section of a library that is linked to them.
_GPU_LIBRARIES = (b"\0libtorch_cuda.so\0", b"\0libtorch_hip.so\0", b"\0libtorch_xpu.so\0")
# The compiler's packages, which are not wheels.
_COMPILER_MODULES = frozenset({"delegatec", "delegatec_schemas"})


@dataclass(frozen=True)
class Installed:
    """A distribution in a directory: its version, and its requirements with their markers."""

    version: str
    requires: tuple[Requirement, ...]


def gpu_wheels(pins: Mapping[str, Pin]) -> list[str]:
    """Returns the wheels that are for GPUs: models are exported on the CPU."""
    return [
        f"{pin.location}: {pin.name}=={pin.version}: a wheel for GPUs, and models are exported on the CPU"
        for pin in pins.values()
        if _is_for_gpus(pin)
    ]


def _is_for_gpus(pin: Pin) -> bool:
    return bool(_GPU.fullmatch(pin.name) or _GPU_BUILD.fullmatch(Version(pin.version).local or ""))


def gpu_libraries(site: Path) -> list[str]:
    """Returns the libraries in a directory that are linked to those of torch for GPUs."""
    return [
        f"{path.relative_to(site)} needs {name[1:-1].decode()}, which torch does not have on the CPU"
        for path in sorted(site.rglob("*.so*"))
        if path.is_file()
        for name in _GPU_LIBRARIES
        if name in path.read_bytes()
    ]


def other_versions(pins: Mapping[str, Pin], below: Mapping[str, Pin]) -> list[str]:
    """Returns the wheels that another lock, used by the same targets, has in another version."""
    return [
        f"{pin.location}: {pin.name}=={pin.version}: {below[pin.name].location} has {below[pin.name].version}"
        for pin in pins.values()
        if pin.name in below
        and not _is_for_gpus(pin)
        and not same_version(pin.version, below[pin.name].version)
    ]


def same_version(one: str, other: str) -> bool:
    """Whether two versions differ at most in that one has a local part, as in 2.13.0 and 2.13.0+cpu."""
    first, second = Version(one), Version(other)
    return first == second or (
        first.public == second.public and (first.local is None or second.local is None)
    )


def installed(site: Path) -> dict[str, Installed]:
    """Returns the distributions in a directory, by normalized name."""
    found = {}
    for path in sorted(site.glob("*.dist-info/METADATA")):
        metadata = email.parser.Parser(policy=email.policy.compat32).parsestr(
            path.read_text(encoding="utf-8"), headersonly=True
        )
        requires = tuple(Requirement(text) for text in metadata.get_all("Requires-Dist", []))
        found[canonicalize_name(str(metadata["Name"]))] = Installed(str(metadata["Version"]), requires)
    return found


def unmet_requirements(
    site: Mapping[str, Installed],
    pins: Mapping[str, Pin],
    below: Mapping[str, Pin],
    allowed: frozenset[str],
    markers: Mapping[str, str],
) -> list[str]:
    """Returns the requirements of a team's wheels that are missing, or there in an unsuitable version.

    Args:
        site: the installed wheels.
        pins: the lock.
        below: the wheels of the compiler and of other locks, which the same targets use.
        allowed: names of distributions that may be missing.
        markers: the build's platform.
    """
    versions = {name: pin.version for name, pin in below.items()}
    versions |= {name: each.version for name, each in site.items()}
    extras = {name: set(pins[name].extras) if name in pins else set() for name in site}
    problems: dict[str, None] = {}
    # A requirement with extras adds requirements of its target: repeat until nothing is added.
    while True:
        before = {name: set(each) for name, each in extras.items()}
        for name, distribution in site.items():
            for requirement in _required(distribution, extras[name], markers):
                needed = canonicalize_name(requirement.name)
                if needed in extras:
                    extras[needed] |= requirement.extras
                if needed not in versions and needed not in allowed:
                    problems[f"{name}=={distribution.version} needs {_text(requirement)}: missing"] = None
                elif needed in versions and not _suits(requirement, versions[needed]):
                    version = versions[needed]
                    problems[f"{name}=={distribution.version} needs {_text(requirement)}: has {version}"] = (
                        None
                    )
        if extras == before:
            return list(problems)


def _required(distribution: Installed, extras: set[str], markers: Mapping[str, str]) -> Iterator[Requirement]:
    """Yields the requirements that hold on the build's platform with some extras."""
    for requirement in distribution.requires:
        if requirement.marker is None or any(
            requirement.marker.evaluate({**markers, "extra": extra}) for extra in ("", *extras)
        ):
            yield requirement


def _suits(requirement: Requirement, version: str) -> bool:
    """Whether a version is allowed; local parts, such as +cpu, do not count."""
    return requirement.specifier.contains(Version(version).public, prereleases=True)


def _text(requirement: Requirement) -> str:
    return f"{requirement.name}{requirement.specifier}"


def shadowed_modules(site: Path, others: Mapping[str, Path]) -> list[str]:
    """Returns the modules that hide one of the compiler, of another directory of wheels, or of Python.

    Args:
        site: a directory of wheels, whose modules come first on the import path.
        others: name in messages -> another directory of wheels.
    """
    problems = []
    for module in sorted(top_level_modules(site)):
        if module in _COMPILER_MODULES:
            problems.append(f"module {module} would hide the compiler's")
        elif module in sys.stdlib_module_names:
            problems.append(f"module {module} would hide that of Python's standard library")
    for shown, other in others.items():
        problems += [f"{path} is also a file of {shown}" for path in _common_modules(site, other)]
    return problems


def top_level_modules(site: Path) -> dict[str, Path]:
    """Returns the modules and packages of a directory: name -> file or directory."""
    return {
        path.name.split(".")[0]: path
        for path in site.iterdir()
        if path.name.split(".")[0].isidentifier()
        and (
            (path.is_dir() and "." not in path.name and path.name != "__pycache__" and _has_modules(path))
            or path.suffix in (".py", ".so")
        )
    }


def _has_modules(folder: Path) -> bool:
    return any(path.suffix in (".py", ".so") for path in folder.rglob("*"))


def _common_modules(site: Path, other: Path, below: str = "") -> Iterator[str]:
    """Yields the modules of both directories; in packages without `__init__.py`, which both may extend."""
    theirs = top_level_modules(other)
    for name, path in sorted(top_level_modules(site).items()):
        if name not in theirs:
            continue
        folders = [each for each in (path, theirs[name]) if each.is_dir()]
        if len(folders) == 2 and not any((folder / "__init__.py").exists() for folder in folders):
            yield from _common_modules(folders[0], folders[1], f"{below}{name}/")
        else:
            yield f"{below}{path.name}"
