# SPDX-License-Identifier: Apache-2.0
"""The diagnostic that a test expects."""

from __future__ import annotations

import os
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Problem:
    """An expected diagnostic: code, line in the model's file (0 for none), words of its text."""

    code: str
    line: int
    words: tuple[str, ...] = field(default=())


def check(text: str, model: str, label: str, problems: list[Problem]) -> None:
    """Checks a whole output: the expected diagnostics, in order, and nothing else."""
    assert "Traceback" not in text
    assert os.getcwd() not in text
    start = f"{label}: error "
    assert text.startswith(start), text
    blocks = text[len(start) :].split(start)
    assert [block[:5] for block in blocks] == [problem.code for problem in problems], text
    for block, problem in zip(blocks, problems, strict=True):
        for word in problem.words:
            assert word in block, text
        assert "\n  help: " in block or "\n  expected: " in block, text
        where = f"\n  at pkg/{model}.py:{problem.line}"
        found = any(f"{where}{end}" in block for end in " :\n")
        assert found == bool(problem.line), text
