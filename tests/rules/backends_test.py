# SPDX-License-Identifier: Apache-2.0
"""The rules' table of backends agrees with the backends."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

from runfiles import Runfiles

from delegatec.backends import builtin_backends
from delegatec.backends.arm.ethos_u.accelerator import CHOICES, MEMORY_MODES


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
    of_bazel = ("file", "host")  # How the rules set an option.
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
                "values": list(option.values),
            }
            for name, option in backend.options.items()
        }
        for backend in builtin_backends()
    }
    assert all(row["title"] for row in rows.values())


def test_names_of_ethos_u_agree() -> None:
    tree = ast.parse(Path("rules/private/ethos_u_options.bzl").read_text())
    tables = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert tables == {
        "SYSTEMS": {family: list(choice.systems) for family, choice in CHOICES.items()},
        "MEMORY_MODES": list(MEMORY_MODES),
    }
