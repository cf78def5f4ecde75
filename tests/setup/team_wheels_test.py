# SPDX-License-Identifier: Apache-2.0
"""Conflicts between a team's wheels and the compiler's, which prevent their use, and locks that name them."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest
from private_wheel import write_wheel

pytestmark = pytest.mark.usefixtures("pip_contains_packaging")


def _script(name: str) -> ModuleType:
    return importlib.import_module(name)


def _read(path: Path) -> object:
    return _script("locked_wheels").read_lock(path, path.name, _script("rows").first_row().markers)


def _lock(folder: Path, text: str, shown: str = "lock.txt") -> object:
    (folder / shown).write_text(text)
    return _read(folder / shown)


HASH = f"--hash=sha256:{'0' * 64}"

LOCK = f"""
# Written by a resolver.
--index-url https://example.org/simple
--find-links wheels
Some_Name[extra]==1.0 \\
    {HASH} \\
    --hash=sha256:{"1" * 64}
    # via something
other==2.0 ; sys_platform == "win32" {HASH}
third==3.0 ; python_version >= "3.8" {HASH}  # of version 3
"""


def test_a_lock(tmp_path: Path) -> None:
    lock = _lock(tmp_path, LOCK)
    assert lock.problems == []
    assert lock.options == ["--index-url https://example.org/simple", f"--find-links {tmp_path}/wheels"]
    assert {name: (pin.version, pin.location) for name, pin in lock.pins.items()} == {
        "some-name": ("1.0", "lock.txt:5"),
        "third": ("3.0", "lock.txt:10"),
    }
    assert lock.pins["some-name"].text == f"Some_Name==1.0 {HASH} --hash=sha256:{'1' * 64}"
    assert lock.pins["some-name"].extras == {"extra"}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("name>=1.0 " + HASH, "name>=1.0: not locked to a version"),
        ("name==1.* " + HASH, "name==1.*: not locked to a version"),
        ("name @ https://example.org/name.whl " + HASH, "not locked to a version"),
        ("name==1.0", "name==1.0: not locked to a hash"),
        ("name==1.0 --hash=sha256:12", "name==1.0: sha256:12 is not a hash"),
        ("one two", "one two: not a requirement"),
        ("<<<<<<< HEAD", "<<<<<<< HEAD: not a requirement"),
        ("-r other.txt", "-r other.txt: a lock is one file of pinned wheels, without this option"),
        ("--editable .", "--editable .: a lock is one file"),
    ],
)
def test_a_line_that_is_not_locked(tmp_path: Path, line: str, problem: str) -> None:
    (found,) = _lock(tmp_path, line + "\n").problems
    assert found.startswith("lock.txt:1: ") and problem in found


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "lock.txt: no wheels"),
        (b"# only a comment\n", "lock.txt: no wheels"),
        (f"name==1.0 {HASH}".encode("utf-16"), "lock.txt: not a text in UTF-8"),
        (
            f"Name==1.0 {HASH}\nname==1.1 {HASH}\n".encode(),
            "lock.txt:2: name==1.1: lock.txt:1 pins version 1.0",
        ),
    ],
)
def test_other_files(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "lock.txt").write_bytes(content)
    (found,) = _read(tmp_path / "lock.txt").problems
    assert problem in found


def test_a_lock_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "lock.txt").write_bytes(f"name==1.0 {HASH}".encode("utf-8-sig"))
    lock = _read(tmp_path / "lock.txt")
    assert lock.problems == [] and [*lock.pins] == ["name"]


@pytest.mark.parametrize(
    "pin",
    [
        "nvidia-cublas==13.1",
        "cuda-bindings==13.0",
        "triton==3.5",
        "torch==2.13.0+cu130",
        "cupy-cuda13x==14.0",
    ],
)
def test_wheels_for_gpus(tmp_path: Path, pin: str) -> None:
    lock = _lock(tmp_path, f"{pin} {HASH}\nnumpy==2.4.6 {HASH}\ntorch-geometric==2.7+cpu {HASH}\n")
    (found,) = _script("wheels_fit").gpu_wheels(lock.pins)
    assert found.startswith(f"lock.txt:1: {pin}: a wheel for GPUs")


@pytest.mark.parametrize(
    ("version", "fits"), [("2.13.0", True), ("2.13.0+cpu", True), ("2.13.0+xyz", False), ("2.12.0", False)]
)
def test_versions_of_the_compiler(tmp_path: Path, version: str, fits: bool) -> None:
    lock = _lock(tmp_path, f"torch=={version} {HASH}\n")
    compiler = _lock(tmp_path, f"torch==2.13.0+cpu {HASH}\n", "compiler.txt")
    found = _script("wheels_fit").other_versions(lock.pins, compiler.pins)
    assert found == ([] if fits else [f"lock.txt:1: torch=={version}: compiler.txt:1 has 2.13.0+cpu"])


REQUIRES = [
    "torch>=2.13",
    "numpy<2",
    "absent>=1",
    "optional; extra == 'plots'",
    "windows; sys_platform == 'win32'",
    "child[plots]",
]


def test_requirements_that_are_missing(tmp_path: Path) -> None:
    wheels_fit = _script("wheels_fit")
    for name, requires in (("parent", REQUIRES), ("child", ["drawing; extra == 'plots'"])):
        folder = tmp_path / "site" / f"{name}-1.0.dist-info"
        folder.mkdir(parents=True)
        text = "".join(f"Requires-Dist: {each}\n" for each in requires)
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{text}\nA text.\n"
        )
    lock = _lock(tmp_path, f"parent==1.0 {HASH}\nchild==1.0 {HASH}\n")
    compiler = _lock(tmp_path, f"torch==2.13.0+cpu {HASH}\nnumpy==2.4.6 {HASH}\n", "compiler.txt")
    site = wheels_fit.installed(tmp_path / "site")
    missing = ["parent==1.0 needs absent>=1: missing", "child==1.0 needs drawing: missing"]
    unsuitable = "parent==1.0 needs numpy<2: has 2.4.6"
    markers = _script("rows").first_row().markers
    found = wheels_fit.unmet_requirements(site, lock.pins, compiler.pins, frozenset(), markers)
    assert sorted(found) == sorted([*missing, unsuitable])
    allowed = frozenset({"absent", "drawing"})
    found = wheels_fit.unmet_requirements(site, lock.pins, compiler.pins, allowed, markers)
    assert found == [unsuitable]


def test_modules_that_would_hide_others(tmp_path: Path) -> None:
    files = (
        "team/delegatec/__init__.py",
        "team/torch.py",
        "team/typing.py",
        "team/shared/ours.py",
        "team/shared/both.py",
        "team/mine/__init__.py",
        "team/mine-1.0.dist-info/METADATA",
        "team/wheels.lock.txt",
        "compiler/torch/__init__.py",
        "compiler/shared/theirs.py",
        "compiler/shared/both.py",
    )
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    found = _script("wheels_fit").shadowed_modules(
        tmp_path / "team", {"the compiler's": tmp_path / "compiler"}
    )
    assert found == [
        "module delegatec would hide the compiler's",
        "module typing would hide that of Python's standard library",
        "shared/both.py is also a file of the compiler's",
        "torch.py is also a file of the compiler's",
    ]


def test_libraries_for_gpus(tmp_path: Path) -> None:
    (tmp_path / "for_gpus.so").write_bytes(b"\x7fELF\0libc10.so\0libtorch_cuda.so\0")
    (tmp_path / "for_cpus.so").write_bytes(b"\x7fELF\0libc10.so\0not libtorch_cuda.so\0")
    (found,) = _script("wheels_fit").gpu_libraries(tmp_path)
    assert found == "for_gpus.so needs libtorch_cuda.so, which torch does not have on the CPU"


def test_a_wheel_is_read_as_pip_installs_it(tmp_path: Path) -> None:
    lock = _lock(tmp_path, write_wheel(tmp_path, "team_layers", "1.0", {"team_layers.py": ""}) + "\n")
    assert lock.pins.keys() == {"team-layers"} and lock.problems == []
