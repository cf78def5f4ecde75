# SPDX-License-Identifier: Apache-2.0
"""Each mistake of the table has its message, and leaves no files.

`recorded.json` has the messages for `docs/errors.md`; `pytest tests/errors --record-messages` writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import torch
from mistake import Mistake
from mistakes import GROUPS, MISTAKES
from playing import play, prepare

RECORDED: Final = Path(__file__).parent / "recorded.json"
_LEAST: Final = 150
_LONGEST_LINE: Final = 360
# What the messages are recorded with: the build of torch differs by platform and Python.
_RECORDED_TORCH: Final = "2.13.0+cpu"
_MACHINE: Final = re.compile(r"/(?:home|root|tmp|usr/lib|var)/|0x[0-9a-f]{6,}")


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    prepare(folder)
    return folder


@pytest.fixture(scope="session")
def texts(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The recorded messages; with --record-messages, they are written at the end."""
    found: dict[str, str] = json.loads(RECORDED.read_text())
    yield found
    if request.config.getoption("record_messages"):
        ordered = {name: found[name] for name in MISTAKES if name in found}
        # In a build, the file is a link to the source.
        RECORDED.resolve().write_text(json.dumps(ordered, indent=1) + "\n")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(
    name: str, prepared: Path, texts: dict[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    mistake = MISTAKES[name]
    played = play(mistake, tmp_path, prepared)
    text = played.text.rstrip().replace(torch.__version__, _RECORDED_TORCH)
    assert played.code == mistake.exit, text
    check_text(text, mistake)
    left = {path for path in played.files if Path(path).name.partition(".")[0] != "a"}
    assert not left, text
    if mistake.recorded and request.config.getoption("record_messages"):
        texts[name] = text
    assert not mistake.recorded or texts[name] == text, "run pytest tests/errors --record-messages"


def check_text(text: str, mistake: Mistake) -> None:
    """Checks the form of a message."""
    codes = re.findall(r"^(?:\S+: |)error (DC\d{3}): ", text, re.MULTILINE)
    assert codes[:1] == [mistake.code] * bool(mistake.code), text
    for word in mistake.words:
        assert word in text, text
    lines = text.splitlines()
    assert "Traceback" not in text and not _MACHINE.search(text), text
    assert len(lines) <= mistake.lines, text
    assert all(line.isprintable() and len(line) <= _LONGEST_LINE for line in lines), text
    # One problem in each line; what follows says where, what is expected, and what to do.
    assert all(
        line.startswith(("  ", "method ", "forward ")) or "error DC" in line
        for line in lines[bool(not codes) :]
    ), text


def test_table() -> None:
    assert len(MISTAKES) == sum(map(len, GROUPS.values())) >= _LEAST
