# SPDX-License-Identifier: Apache-2.0
"""WORKSPACE and MODULE.bazel declare the same repositories."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from runfiles import Runfiles


def text(path: str) -> str:
    """Returns a file of the source tree."""
    runfiles = Runfiles.Create()
    assert runfiles is not None
    location = runfiles.Rlocation(f"rules_delegate/{path}")
    assert location is not None
    return Path(location).read_text(encoding="utf-8")


def declared(sites: str, *others: str) -> set[str]:
    """Returns the repositories of a list of sites, and others that files declare by name."""
    (names,) = re.findall(
        rf"^{sites} = (\[.*?\])", text("third_party/python/sites.bzl"), re.MULTILINE | re.DOTALL
    )
    pattern = r'^    (?:    )?\w+\(name = "(delegatec_\w+)"[,)]'
    named = {name for path in others for name in re.findall(pattern, text(path), re.MULTILINE)}
    return {f"delegatec_pip_{name}" for name in ast.literal_eval(names)} | named


def test_use_repo_names_every_repository() -> None:
    used = {
        extension: set(ast.literal_eval(f"[{names}]"))
        for extension, names in re.findall(
            r"^use_repo\(\n    (\w+),\n(.*?)^\)", text("MODULE.bazel"), re.MULTILINE | re.DOTALL
        )
    }
    development = declared("DEVELOPMENT_SITES", "third_party/python/development.bzl")
    assert {"delegatec_bazel7", "delegatec_pip_test"} <= development
    rules = declared("RULES_SITES", "third_party/python/sites.bzl")
    rules |= {"delegatec_aarch64", "delegatec_mesa", "delegatec_runtime"}
    assert {"delegatec_pip_compiler", "delegatec_python"} <= rules
    assert used == {"development_repositories": development, "repositories": rules}
