# SPDX-License-Identifier: Apache-2.0
"""Docstrings, comments, messages and pages avoid some phrases that are unclear or not American English."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from runfiles import Runfiles

RUNFILES = Runfiles.Create()
assert RUNFILES is not None
WORKSPACE = RUNFILES.Rlocation("rules_delegate/WORKSPACE")
assert WORKSPACE is not None
ROOT = Path(WORKSPACE).resolve().parent
FOLDERS = (
    *(".bcr", ".ci", "bench", "config", "docs", "e2e", "examples", "python", "rules", "runtime", "schemas"),
    *("tests", "third_party", "tools", "wheels"),
)
SUFFIXES = (".bazel", ".bzl", ".cc", ".fbs", ".h", ".md", ".py", ".sh", ".yml")

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

# Identifier or phrase -> the term of the field.
TERMS = {
    r"\bwhole numbers?\b": "integers",
    r"\b_?[Ll]evels\b|\blevels_\w+|\b(?!focal_levels|weight_levels)\w+_levels\b": "quantized values",
    r"\bplaces\b|\bplace(?: =|: int)|\bfor place\b|[\[(]place\b|(?<!in)_place\b": "indices, positions",
    r"\b_?numbers(?:[(\[]| = )|\w_numbers\(|\b(?:of|on|wrong) numbers\b(?! of)": "floats, scalars, integers",
    r"\btruth\b|\btruth_\w+": "bool",
    r"\bmixing\b": "matmul",
    r"\babilit(?:y|ies)\b": "features, quantized regions",
    r"\b[Nn]eighbors are\b|\bof neighbors\b": "adjacent elements",
    r"\b(?:separate_rows|separate_batches|norm_before_layer)\b": "unflatten_linear, fold_batch_norm",
}
# Files in which a term is right, and why.
EXCEPTIONS = {
    "python/delegatec/edge/analysis/minimum_cut.py": "the levels of a graph, as in Dinic's algorithm",
    "python/delegatec/frontend/block_scaled.py": "the name of a stored constant, weight_levels",
    "python/delegatec/quantize/": "the names of stored constants, such as weight_levels",
}


def _files() -> list[Path]:
    files = [path for path in ROOT.iterdir() if path.suffix in SUFFIXES]
    files += [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    assert len(files) > 500
    return sorted(path for path in files if path.name != Path(__file__).name)


def _found(files: list[Path], phrases: dict[str, str], flags: re.RegexFlag = re.NOFLAG) -> str:
    return "\n".join(
        f"{path.relative_to(ROOT)}:{line}: {match[0]!r}, better: {better}"
        for path in files
        for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for phrase, better in phrases.items()
        if (match := re.search(phrase, text, flags))
    )


def test_phrases() -> None:
    found = _found(_files(), PHRASES, re.IGNORECASE)
    assert not found, found


def test_terms() -> None:
    files = [path for path in _files() if not path.relative_to(ROOT).as_posix().startswith(tuple(EXCEPTIONS))]
    found = _found(files, TERMS)
    assert not found, found


@pytest.mark.parametrize(
    "text",
    ["levels = x", "self.levels", "add_levels(x)", "place = 1", "for place in y", "numbers(3)", "truth"],
)
def test_invented_terms_are_found(text: str) -> None:
    assert any(re.search(term, text) for term in TERMS)


@pytest.mark.parametrize(
    "text",
    ["written in place", "test_in_place()", "line numbers", "random numbers", "focal_levels=[2]", "replace("],
)
def test_other_uses_of_the_words_are_not(text: str) -> None:
    assert not any(re.search(term, text) for term in TERMS)
