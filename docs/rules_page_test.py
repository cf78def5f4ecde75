# SPDX-License-Identifier: Apache-2.0
"""The page of the rules is up to date, and has all public names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from nested_bazel import real_path, source_root
from rules_page import PAGE, extracted, names, parse

# Names of defs.bzl that are not for BUILD files.
_TABLES = {"BACKENDS"}


def test_the_text_format() -> None:
    text = 'a: "x\\ny \\"z\\""\nb {\n  c: INT\n  c: LABEL\n}\nb {\n}\n'
    assert parse(text) == {"a": ['x\ny "z"'], "b": [{"c": ["INT", "LABEL"]}, {}]}
    for wrong in ("}", "a b", "a: "):
        with pytest.raises(ValueError, match="line 1"):
            parse(wrong)


def test_every_public_name_is_on_the_page() -> None:
    root = source_root()
    public = re.findall(
        r"^(?:def )?([A-Za-z]\w*)(?: =|\()", (root / "rules/defs.bzl").read_text(), re.MULTILINE
    )
    backends = json.loads(real_path("rules_delegate/rules/private/backends.json").read_text())
    expected = (set(public) | {f"{name}_program" for name in backends}) - _TABLES - {"load"}
    assert len(expected) > 12
    assert expected <= {*names((root / PAGE).read_text(encoding="utf-8"))}


def test_the_page_is_up_to_date(tmp_path: Path) -> None:
    page = extracted(tmp_path)
    assert (source_root() / PAGE).read_text(encoding="utf-8") == page, f"{PAGE}: bazel run //docs:rules_page"
