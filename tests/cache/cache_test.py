# SPDX-License-Identifier: Apache-2.0
"""Which actions run after which edit, as in docs/caching.md, and what another checkout finds in a cache."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cached_package import ALL, EXPORT, LOCATE, PROGRAMS, built, write_package, write_weights
from nested_bazel import NestedBazel, copy_of_the_sources, nested_bazel


def replacing(file: str, old: str, new: str) -> Callable[[Path], None]:
    """Returns an edit of a file."""

    def edit(workspace: Path) -> None:
        path = workspace / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return edit


def appending(file: str, text: str) -> Callable[[Path], None]:
    """Returns an edit that adds to the end of a file, which may be new."""

    def edit(workspace: Path) -> None:
        with open(workspace / file, "a", encoding="utf-8") as output:
            output.write(text)

    return edit


# In this order, one after another: the edit, and the actions that it should run.
TABLE: list[tuple[str, Callable[[Path], None], set[str]]] = [
    ("nothing", lambda workspace: None, set()),
    ("an unrelated file", appending("cached/notes.txt", "A note.\n"), set()),
    ("a comment at the end of the model", appending("cached/net.py", "# The end.\n"), EXPORT),
    ("a blank line that moves lines", replacing("cached/net.py", "\nclass", "\n\nclass"), EXPORT | LOCATE),
    ("the model", replacing("cached/net.py", "x * 2", "x * 3"), ALL),
    ("one weight", lambda workspace: write_weights(workspace / "cached/net.safetensors", 1), ALL),
    (
        "a comment in a backend",
        appending("python/delegatec/backends/mps/preprocess.py", "# The end.\n"),
        {"DelegateLower net_mps"},
    ),
    (
        "an option of one program",
        replacing("cached/BUILD.bazel", 'name = "net_mps",', 'name = "net_mps",\n    precision = "fp16",'),
        {"DelegateLower net_mps", "DelegateLocate net_mps"},
    ),
    (
        "a seed that the model does not use",
        replacing("cached/BUILD.bazel", 'name = "net",', 'name = "net",\n    seed = 7,'),
        EXPORT,
    ),
    (
        "more samples of the model",
        replacing("cached/BUILD.bazel", 'name = "net",', 'name = "net",\n    samples = 5,'),
        EXPORT,
    ),
    ("a comment in the compiler", appending("python/delegatec/edge/source.py", "# The end.\n"), ALL),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of everything."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def bazel(folder: Path) -> Iterator[NestedBazel]:
    """A Bazel that has built everything."""
    workspace = copy_of_the_sources(folder / "one" / "workspace")
    write_package(workspace)
    with nested_bazel(workspace, folder / "one" / "output") as bazel:
        first = built(bazel, f"--disk_cache={folder / 'disk'}")
        assert {each.action for each in first} == ALL
        assert not any(each.found for each in first)
        yield bazel


def test_another_checkout_and_output_base_find_all(bazel: NestedBazel, folder: Path) -> None:
    workspace = copy_of_the_sources(folder / "two" / "elsewhere" / "rules")
    write_package(workspace)
    with nested_bazel(workspace, folder / "two" / "base") as other:
        found = built(other, f"--disk_cache={folder / 'disk'}")
    assert {each.action for each in found} == ALL
    assert [each.action for each in found if not each.found] == []


def test_the_table(bazel: NestedBazel) -> None:
    wrong = {}
    for name, edit, expected in TABLE:
        edit(bazel.workspace)
        ran = {each.action for each in built(bazel)}
        if ran != expected:
            wrong[name] = {"ran in vain": sorted(ran - expected), "did not run": sorted(expected - ran)}
    assert not wrong, json.dumps(wrong, indent=1)


def test_errors_have_the_lines_of_now(bazel: NestedBazel) -> None:
    """A lowering that fails reads the lines; other programs are built all the same."""
    package = bazel.workspace / "cached"
    replacing("BUILD.bazel", "\n)\n\nvulkan", "\n    require_full_delegation = True,\n)\n\nvulkan")(package)
    for _ in range(2):
        replacing("net.py", "\nclass", "\n\nclass")(package)
        lines = (package / "net.py").read_text().splitlines()
        (number,) = (index for index, line in enumerate(lines, 1) if "torch.cond" in line)
        failed = bazel.attempt("build", "--keep_going", *(f"//cached:{name}" for name in PROGRAMS))
        assert failed.returncode == 1
        assert "//cached:net_mps: error DC405" in failed.stderr
        assert f"at cached/net.py:{number} in forward" in failed.stderr
        outputs = bazel.workspace / "bazel-bin/cached"
        assert [name for name in PROGRAMS if not (outputs / f"{name}.pte").exists()] == ["net_mps"]
    others = tuple(name for name in PROGRAMS if name != "net_mps")
    assert {each.action for each in built(bazel, programs=others)} <= LOCATE
