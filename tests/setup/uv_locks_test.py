# SPDX-License-Identifier: Apache-2.0
"""Which wheels a project needs, out of a uv.lock. For locks of this form, `uv export` chooses the same."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("pip_contains_packaging")

HASHES = [f"sha256:{digit * 64}" for digit in "0123456789"]

# As uv writes it for a workspace with two projects: a package in two versions, extras of packages.
LOCK = f"""
version = 1
revision = 5
requires-python = ">=3.11"
resolution-markers = [
    "python_full_version >= '3.12'",
    "python_full_version < '3.12'",
]

[[package]]
name = "colorama"
version = "0.4.6"
source = {{ registry = "https://pypi.org/simple" }}
wheels = [{{ url = "https://files/colorama.whl", hash = "{HASHES[0]}" }}]

[[package]]
name = "numpy"
version = "1.26.4"
source = {{ registry = "https://pypi.org/simple" }}
resolution-markers = ["python_full_version < '3.12'"]
sdist = {{ url = "https://files/numpy-1.26.4.tar.gz", hash = "{HASHES[9]}" }}
wheels = [
    {{ url = "https://files/numpy-1.26.4-cp311-cp311-macosx_11_0_arm64.whl", hash = "{HASHES[1]}" }},
    {{ url = "https://files/numpy-1.26.4-cp311-cp311-manylinux_2_17_x86_64.whl", hash = "{HASHES[2]}" }},
]

[[package]]
name = "numpy"
version = "2.5.5"
source = {{ registry = "https://pypi.org/simple" }}
resolution-markers = ["python_full_version >= '3.12'"]
wheels = [{{ url = "https://files/numpy-2.5.5.whl", hash = "{HASHES[3]}" }}]

[[package]]
name = "pysocks"
version = "1.7.1"
source = {{ registry = "https://pypi.org/simple" }}
wheels = [{{ url = "https://files/pysocks.whl", hash = "{HASHES[4]}" }}]

[[package]]
name = "requests"
version = "2.34.2"
source = {{ registry = "https://pypi.org/simple" }}
dependencies = [{{ name = "urllib3" }}]
wheels = [{{ url = "https://files/requests.whl", hash = "{HASHES[5]}" }}]

[package.optional-dependencies]
socks = [{{ name = "pysocks" }}]

[[package]]
name = "shared"
version = "0.1"
source = {{ editable = "packages/shared" }}
dependencies = [{{ name = "torch" }}]

[package.optional-dependencies]
compressed = [{{ name = "from-git" }}]

[[package]]
name = "team"
version = "0.1"
source = {{ virtual = "." }}
dependencies = [
    {{ name = "colorama", marker = "sys_platform == 'win32'" }},
    {{ name = "numpy", version = "1.26.4", marker = "python_full_version < '3.12'" }},
    {{ name = "numpy", version = "2.5.5", marker = "python_full_version >= '3.12'" }},
    {{ name = "shared" }},
]

[package.optional-dependencies]
web = [{{ name = "requests", extra = ["socks"] }}]

[package.dev-dependencies]
dev = [{{ name = "urllib3" }}]

[[package]]
name = "from-git"
version = "1.0"
source = {{ git = "https://example.org/from-git?rev=1" }}

[[package]]
name = "torch"
version = "2.13.0+cpu"
source = {{ registry = "https://index/whl/cpu" }}
wheels = [{{ url = "https://index/torch.whl", hash = "{HASHES[6]}" }}]

[[package]]
name = "urllib3"
version = "2.8.0"
source = {{ registry = "https://pypi.org/simple" }}
wheels = [{{ url = "https://files/urllib3.whl", hash = "{HASHES[7]}" }}]
"""


def _read(
    folder: Path, text: str, project: str = "", extras: Collection[str] = (), groups: Collection[str] = ()
) -> Any:
    (folder / "uv.lock").write_text(text)
    scripts = importlib.import_module("uv_locks")
    markers = importlib.import_module("rows").first_row().markers
    choice = scripts.Choice(project, extras, groups)
    return scripts.read_uv_lock(folder / "uv.lock", "uv.lock", choice, markers)


BASE = {"numpy": "1.26.4", "torch": "2.13.0+cpu"}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({}, BASE),
        ({"project": "Team"}, BASE),
        ({"project": "shared"}, {"torch": "2.13.0+cpu"}),
        ({"groups": ["dev"]}, BASE | {"urllib3": "2.8.0"}),
        ({"extras": ["web"]}, BASE | {"pysocks": "1.7.1", "requests": "2.34.2", "urllib3": "2.8.0"}),
    ],
)
def test_what_a_project_needs(tmp_path: Path, choice: dict[str, Any], expected: dict[str, str]) -> None:
    lock = _read(tmp_path, LOCK, **choice)
    assert lock.problems == []
    assert {name: pin.version for name, pin in lock.pins.items()} == expected
    assert lock.options == ["--extra-index-url https://index/whl/cpu"]


def test_hashes_of_wheels_and_the_location_of_the_package(tmp_path: Path) -> None:
    pin = _read(tmp_path, LOCK).pins["numpy"]
    assert pin.text == f"numpy==1.26.4 --hash={HASHES[1]} --hash={HASHES[2]}"
    line = int(pin.location.removeprefix("uv.lock:"))
    assert LOCK.splitlines()[line - 1 : line + 2] == ["[[package]]", 'name = "numpy"', 'version = "1.26.4"']


@pytest.mark.parametrize(
    ("text", "choice", "problem"),
    [
        (LOCK, {"project": "other"}, "uv.lock: it has no project other; its projects: shared, team"),
        (LOCK, {"extras": ["tls"]}, "team has no extra tls; it has: web"),
        (LOCK, {"groups": ["train"]}, "team has no group train; it has: dev"),
        (
            LOCK,
            {"project": "shared", "extras": ["compressed"]},
            "from-git: the lock has no wheel of it (source: git)",
        ),
        (LOCK.replace("version = 1\n", "version = 2\n"), {}, "uv.lock: of version 2; version 1 can be read"),
        (LOCK.replace("revision = 5", "conflicts = [[{}]]"), {}, "uv.lock: it has conflicting extras"),
        (LOCK.replace(f'hash = "{HASHES[6]}"', "size = 1"), {}, "torch: no hash: lock again with hashes"),
        (
            LOCK.replace('name = "urllib3"\nversion', 'name = "urllib2"\nversion'),
            {"groups": ["dev"]},
            "0 packages are urllib3",
        ),
        (
            LOCK.replace("sys_platform == 'win32'", "sys_platform is win32"),
            {},
            "the marker sys_platform is win32",
        ),
        (
            LOCK.replace("sys_platform == 'win32'", "platform_release ~= 'a'"),
            {},
            "the marker platform_release ~= 'a'",
        ),
        (
            LOCK.replace('">=3.11"', '">=3.12"'),
            {},
            "uv.lock: it is for Python >=3.12, and the build has 3.11.",
        ),
        (LOCK.replace('">=3.11"', '"new"'), {}, "uv.lock: not a lock as uv writes it"),
        ("version = 1\n", {}, "uv.lock: `project` does not name one of its projects; its projects: none"),
        ("version = ", {}, "uv.lock: not TOML: "),
        (LOCK.replace('name = "team"', "names = 1"), {}, "uv.lock: not a lock as uv writes it"),
        (
            LOCK.replace('[{ name = "torch" }]', "[1]"),
            {},
            "not a lock as uv writes",
        ),
    ],
)
def test_problems(tmp_path: Path, text: str, choice: dict[str, Any], problem: str) -> None:
    lock = _read(tmp_path, text, **choice)
    assert len(lock.problems) == 1
    assert problem in lock.problems[0]
