# SPDX-License-Identifier: Apache-2.0
"""Docstrings, comments, messages and pages avoid some phrases that are unclear or not American English."""

from __future__ import annotations

import re
from pathlib import Path

from runfiles import Runfiles

RUNFILES = Runfiles.Create()
assert RUNFILES is not None
WORKSPACE = RUNFILES.Rlocation("rules_delegate/WORKSPACE")
assert WORKSPACE is not None
ROOT = Path(WORKSPACE).resolve().parent
FOLDERS = ("bench", "docs", "examples", "python", "rules", "schemas", "tests", "third_party", ".ci")
SUFFIXES = (".bazel", ".bzl", ".fbs", ".md", ".py")

# Phrase -> the plain form.
PHRASES = {
    r"\bis none of\b": "is not one of",
    r"(?<!there )\b(?:is|are) no (?!longer|more|less|such)\w+": "is not a; does not have",
    r"\bof (?:its|their|our) own\b": "separate, private, custom",
    r"\bin the place of\b": "instead of; replaces",
    r"\brests? on\b": "depends on",
    r"\bthe whole of\b": "all of; complete",
    r"\bcomes? of\b": "comes from",
    r"\bbeside\b": "next to; besides",
    r"\bso many\b": "that many",
    r"\bwho(?:so)?ever\b|\bwhatever\b": "any; regardless of",
    r"\b(?:is|are) told\b": "receives; records",
    r"(?<!--)\b(?:quant|serial|normal|optim|initial|special|material|canonical)is(?:e|ing|ation)": "-ize",
    r"\b(?:behaviour|neighbour|colour|centre\b)": "behavior, neighbor, color, center",
}


def test_phrases() -> None:
    files = [path for path in ROOT.iterdir() if path.suffix in SUFFIXES]
    files += [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]!r}, better: {better}"
        for path in sorted(files)
        if path.name != Path(__file__).name
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for phrase, better in PHRASES.items()
        if (match := re.search(phrase, line))
    ]
    assert len(files) > 500
    assert not found, "\n".join(found)
