# SPDX-License-Identifier: Apache-2.0
"""The choice of a row by a workspace, in both generations of Bazel: no download, and no action."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from consumer_workspace import consumer_bazel
from nested_bazel import WITH_WORKSPACE, NestedBazel, with_modules

_HOST = f"linux_{platform.machine()}"
_LOCK = "# Without wheels.\n"
_OWN = {
    "python": "3.13",
    "torch": "2.14.0",
    "platform": _HOST,
    "interpreter": "host",
    "locks": "own",
    "locked": ["compiler"],
}
_ROW = 'row(name = "3.13", rows = "//rows:rows.json")'
_MODULE = f"""
repositories = use_extension("@rules_delegate//rules:extensions.bzl", "repositories")
repositories.{_ROW}
use_repo(repositories, "delegatec_row")
"""
_PLATFORM = "@rules_delegate//third_party/python:macos_arm64"
_MACOS = "--repo_env=DELEGATEC_ROW=3.13-2.13.0-macos_arm64"


@pytest.fixture(scope="module", params=["WORKSPACE", "MODULE.bazel"])
def consumer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NestedBazel]:
    """A workspace that has a table, and names a row of it."""
    generation = WITH_WORKSPACE if request.param == "WORKSPACE" else with_modules(is_copy=False)
    with consumer_bazel(tmp_path_factory.mktemp("rows"), generation) as bazel:
        file = bazel.workspace / request.param
        text = file.read_text()
        if request.param == "WORKSPACE":
            call = _ROW.replace("row(name =", "rules_delegate_repositories(row =")
            text = text.replace("\nrules_delegate_repositories()\n", f"\n{call}\n")
            assert call in text
        else:
            text += _MODULE
        file.write_text(text)
        folder = bazel.workspace / "rows"
        (folder / "own").mkdir(parents=True)
        (folder / "BUILD.bazel").write_text('exports_files(["rows.json"])\n')
        (folder / "rows.json").write_text(json.dumps({"rows": [_OWN]}))
        (folder / "own" / "compiler.lock.txt").write_text(_LOCK)
        yield bazel


def _fetched(consumer: NestedBazel, *flags: str) -> tuple[dict[str, Any], Path]:
    """Fetches the row, and returns its content and its directory."""
    consumer.run("query", *flags, "@delegatec_row//:*")
    (file,) = consumer.output_user_root.glob("*/external/*delegatec_row/row.json")
    content = json.loads(file.read_text())
    assert isinstance(content, dict) and content["problem"] == ""
    return content, file.parent


def test_a_row_of_the_workspace_and_one_of_the_command_line(consumer: NestedBazel) -> None:
    content, folder = _fetched(consumer)
    assert content["name"] == f"3.13-2.14.0-{_HOST}" and content["host"]
    assert (folder / "compiler.lock.txt").read_text() == _LOCK
    content, folder = _fetched(consumer, "--repo_env=DELEGATEC_ROW=3.13-2.13.0")
    assert content["name"] == f"3.13-2.13.0-{_HOST}"
    assert "\ntorch==2.13.0" in (folder / "compiler.lock.txt").read_text()
    content, _ = _fetched(consumer, "--repo_env=DELEGATEC_ROW=3.11")
    assert content["name"] == f"3.11-2.13.0-{_HOST}"


def test_an_edit_of_the_table_is_seen(consumer: NestedBazel) -> None:
    table = consumer.workspace / "rows" / "rows.json"
    before = table.read_text()
    assert _fetched(consumer)[0]["row"]["torch"] == "2.14.0"
    table.write_text(json.dumps({"rows": [_OWN | {"torch": "2.15.0"}]}))
    try:
        assert _fetched(consumer)[0]["row"]["torch"] == "2.15.0"
    finally:
        table.write_text(before)


def test_targets_for_macos_are_analyzed(consumer: NestedBazel) -> None:
    """The repositories of wheels are those of the outer Bazel: an analysis reads none of their files."""
    content, _ = _fetched(consumer, _MACOS)
    assert content["name"] == "3.13-2.13.0-macos_arm64" and not content["host"]
    analysis = ("--nobuild", _MACOS, "//model:net_mps", "//model:net_portable")
    consumer.run("build", f"--host_platform={_PLATFORM}", f"--platforms={_PLATFORM}", *analysis)
    refused = consumer.attempt("build", *analysis)  # on this host there is no Python of macOS
    assert refused.returncode != 0 and "toolchain" in refused.stderr
