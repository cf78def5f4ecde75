# SPDX-License-Identifier: Apache-2.0
"""The rules' table of backends says what the compiler's registry says."""

from __future__ import annotations

import json
from pathlib import Path

from runfiles import Runfiles

from delegatec.backends import builtin_backends


def table_of_the_rules() -> dict[str, dict[str, list[str]]]:
    """Backend -> option -> values, the default first; without the programs that no backend takes part in."""
    runfiles = Runfiles.Create()
    assert runfiles is not None
    path = runfiles.Rlocation("rules_delegate/tests/rules/backend_table.json")
    assert path is not None
    table: dict[str, dict[str, list[str]]] = json.loads(Path(path).read_text())
    assert table.pop("portable") == {}
    return table


def test_names_and_options_agree() -> None:
    registry = builtin_backends()
    assert {
        backend.name: {
            name: [option.default, *(value for value in option.values if value != option.default)]
            for name, option in backend.options.items()
        }
        for backend in registry
    } == table_of_the_rules()
