# SPDX-License-Identifier: Apache-2.0
"""The tables of the rules agree with the compiler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runfiles import Runfiles

from delegatec.backends import builtin_backends
from tests.rules.compiler_tables import COMMAND, FILE, text


def table_of_the_rules() -> dict[str, dict[str, Any]]:
    """Backend -> its row."""
    runfiles = Runfiles.Create()
    assert runfiles is not None
    path = runfiles.Rlocation("rules_delegate/rules/private/backends.json")
    assert path is not None
    table: dict[str, dict[str, Any]] = json.loads(Path(path).read_text())
    return table


def test_names_and_options_agree() -> None:
    rows = table_of_the_rules()
    of_bazel = ("file", "host", "setting")  # How the rules set an option.
    files = {
        (name, option)
        for name, row in rows.items()
        for option, spec in row["options"].items()
        if spec["file"]
    }
    assert files == {
        (backend.name, name)
        for backend in builtin_backends()
        for name, option in backend.options.items()
        if option.is_file
    }
    assert {
        name: {
            option: {key: value for key, value in spec.items() if key not in of_bazel}
            for option, spec in row["options"].items()
        }
        for name, row in rows.items()
    } == {
        backend.name: {
            name: {
                "default": list(option.default) if option.is_list else option.default,
                "doc": option.doc,
                "needs": list(option.needs),
                "values": list(option.values),
            }
            for name, option in backend.options.items()
        }
        for backend in builtin_backends()
    }
    assert all(row["title"] for row in rows.values())


def test_tables_of_the_compiler_are_up_to_date() -> None:
    assert FILE.read_text(encoding="utf-8") == text(), f"{FILE} is out of date: {COMMAND}"
