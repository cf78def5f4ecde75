# SPDX-License-Identifier: Apache-2.0
"""Tasks in forked processes: one that crashes or hangs does not end the others."""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.peer.arm.campaign import Selection, campaign, read_lines
from tests.peer.forked import Task, run_forked


def _killed() -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGSEGV)
    return {}


def _hanging() -> dict[str, Any]:
    time.sleep(600)
    return {}


def _tasks(*functions: tuple[str, Callable[[], dict[str, Any]]]) -> Callable[[], Iterator[Task]]:
    return lambda: (Task(name, function) for name, function in functions)


def test_other_tasks_run_after_one_that_ends_the_process() -> None:
    tasks = _tasks(
        ("a", lambda: {"status": "right"}),
        ("b", _killed),
        ("c", _hanging),
        ("d", lambda: {"status": "right"}),
    )
    lines = {line["name"]: line for line in run_forked(tasks, set(), 3)}
    assert [lines[name]["status"] for name in "abcd"] == ["right", "error", "error", "right"]
    assert lines["b"]["reason"] == "the process ends with -11"
    assert lines["c"]["reason"] == "the process exceeds its time"


def test_tasks_that_cannot_be_made_are_reported() -> None:
    def broken() -> Iterator[Task]:
        raise ImportError
        yield

    (line,) = run_forked(broken, set(), 60)
    assert (line["name"], line["status"]) == ("", "error")


def test_tasks_that_have_run_are_skipped() -> None:
    tasks = _tasks(("a", _killed), ("b", dict))
    assert [line["name"] for line in run_forked(tasks, {"a"}, 60)] == ["b"]


def test_a_campaign_continues(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    selection = Selection(["ops/eye"], ["INT"], every=4)
    names = [case.name for case in selection.cases("ops/eye")]
    path.write_text(json.dumps({"name": names[0], "status": "right", "mark": 1}) + '\n{"name": "trunc')
    campaign(selection, path, None)
    lines = read_lines(path)
    assert list(lines) == names
    assert lines[names[0]]["mark"] == 1


def test_a_campaign_runs_wrong_cases_again(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    selection = Selection(["ops/abs", "ops/eye"], ["INT"], every=4)
    first, second = (case.name for case in itertools.islice(selection.cases("ops/eye"), 2))
    lines = [
        {"name": name, "kind": "INT", "module": "ops/eye", "status": status}
        for name, status in ((first, "right"), (second, "wrong"))
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    campaign(selection, path, None, again=True)
    assert [line["status"] for line in read_lines(path).values()] == ["right", "right"]
