# SPDX-License-Identifier: Apache-2.0
"""The public names of this version: rules, codes, verbs and functions, each with its attributes."""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
from pathlib import Path

import delegatec
from delegatec.cli.command import VERBS
from delegatec.diagnostics.codes import CODES

Interface = dict[str, dict[str, list[str]]]
"""Kind -> name -> names of its attributes, sorted."""


def interface(rules_page: Path) -> Interface:
    """Returns the public names.

    Args:
        rules_page: docs/rules.md, which is generated from the rules.
    """
    return {
        "rules": _rules(rules_page.read_text(encoding="utf-8")),
        "codes": {code: [] for code in CODES},
        "verbs": {verb: _flags(verb) for verb in VERBS},
        "python": {name: _arguments(getattr(delegatec, name)) for name in delegatec.__all__},
    }


def _rules(page: str) -> dict[str, list[str]]:
    """Names in headings, with the names in the first column of their tables."""
    _, *sections = re.split(r"^##+ ", page, flags=re.MULTILINE)
    tables = {}
    for section in sections:
        heading, _, body = section.partition("\n")
        tables[heading] = sorted(re.findall(r"^\| `(\w+)` \|", body, re.MULTILINE))
    return {heading: names for heading, names in tables.items() if names or re.fullmatch(r"\w+", heading)}


def _flags(verb: str) -> list[str]:
    parser = argparse.ArgumentParser(add_help=False)
    importlib.import_module(f"delegatec.cli.{verb}").add_arguments(parser)
    return sorted(flag for action in parser._actions for flag in (action.option_strings or [action.dest]))


def _arguments(member: object) -> list[str]:
    return sorted(inspect.signature(member).parameters) if callable(member) else []
