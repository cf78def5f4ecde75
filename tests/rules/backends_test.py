# SPDX-License-Identifier: Apache-2.0
"""The rules' table of backends agrees with the backends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runfiles import Runfiles

from delegatec.backends import builtin_backends


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
    assert {name: row["options"] for name, row in rows.items()} == {
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
