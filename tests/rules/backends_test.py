# SPDX-License-Identifier: Apache-2.0
"""The tables of the rules agree with the compiler."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

from runfiles import Runfiles

from delegatec.backends import builtin_backends
from delegatec.backends.arm import specification
from delegatec.backends.arm.ethos_u import flags
from delegatec.backends.arm.ethos_u.accelerator import CHOICES, MEMORY_MODES, SYSTEMS_WITHOUT_DRAM
from delegatec.quantize import settings
from delegatec.samples import tolerances


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


def tables_of(path: str) -> dict[str, Any]:
    """Public name -> the literal that a Starlark file assigns to it."""
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(Path(path).read_text()).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        if not node.targets[0].id.startswith("_")
    }


def test_names_of_ethos_u_agree() -> None:
    assert tables_of("rules/private/ethos_u_options.bzl") == {
        "SYSTEMS": {family: list(choice.systems) for family, choice in CHOICES.items()},
        "MEMORY_MODES": list(MEMORY_MODES),
        "SYSTEMS_WITHOUT_DRAM": list(SYSTEMS_WITHOUT_DRAM),
        "DEFAULTS": {family: (choice.system, choice.memory_mode) for family, choice in CHOICES.items()},
        "FLAGS": {flag: list(values) for flag, values in flags.KNOWN.items()},
        "FLAGS_OF_THE_RULE": dict(flags.OURS),
    }


def test_words_of_specifications_agree() -> None:
    assert tables_of("rules/private/tosa_specification.bzl") == {
        "EXTENSIONS": dict(specification.EXTENSIONS),
        "LATER": sorted(specification.LATER),
        "MARKS": sorted(specification.MARKS),
        "RENAMED": dict(specification.RENAMED),
    }


def test_dtypes_of_tolerances_agree() -> None:
    assert tables_of("rules/private/tolerances.bzl") == {"DTYPES": list(tolerances.DTYPES)}


def test_settings_of_quantization_agree() -> None:
    assert tables_of("rules/private/quantization.bzl") == {
        "CHOICES": {name: list(values) for name, values in settings.CHOICES.items()},
        "STATIC": list(settings.STATIC),
        "NEEDS": [(setting, other, list(values)) for setting, other, values in settings.NEEDS],
    }
