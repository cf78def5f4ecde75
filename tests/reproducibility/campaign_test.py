# SPDX-License-Identifier: Apache-2.0
"""The runs of the campaign: the properties that need no build."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.reproducibility.campaign import RUNS, Run, unequal


@pytest.mark.parametrize("run", RUNS, ids=[run.name for run in RUNS])
def test_python_reads_utf_8(run: Run) -> None:
    """torch reads its templates in the locale's encoding, and some models cannot be imported otherwise."""
    printed = subprocess.run(
        [sys.executable, "-c", "import locale; print(locale.getpreferredencoding(False))"],
        env={"LC_ALL": "C.UTF-8", **run.environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout.strip().lower() == "utf-8"


def test_unequal_outputs() -> None:
    """A program that one run lacks is a difference; an output on demand is not."""
    reference = {"a.pte": "1", "b.pt2": "2", "a.html": "3"}
    assert unequal(reference, {"a.pte": "1", "b.pt2": "2"}) == []
    assert unequal(reference, {"a.pte": "0", "b.pt2": "2", "a.html": "3"}) == ["a.pte"]
    assert unequal(reference, {"a.pte": "1", "a.html": "3"}) == ["b.pt2"]
    assert unequal(reference, reference | {"c.pte": "4"}) == ["c.pte"]
