# SPDX-License-Identifier: Apache-2.0
"""Profiles from what the runtime recorded of a program."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

import flatbuffers
import pytest
from delegatec_schemas import etdump as schema

from delegatec.backends import builtin_backends
from delegatec.cli.main import run_verb
from delegatec.diagnostics import DelegatecError
from delegatec.profile.attribution import Profile, profile_of
from delegatec.profile.etdump import Event, Run, read_etdump
from delegatec.profile.table import format_profile
from delegatec.profile.views import VIEWS
from delegatec.program.reader import read_program

_FOLDER = Path(__file__).parent / "testdata"
_PTE, _DEBUG, _ETDUMP = (_FOLDER / f"digits.{suffix}" for suffix in ("pte", "debug.json", "etdump"))
_KERNELS = [
    "Static Reshape (NC) #1",
    "Convolution (NHWC, F32) IGEMM #1",
    "Max Pooling (NHWC, F32) #1",
    "Convolution (NHWC, F32) IGEMM #2",
    "Max Pooling (NHWC, F32) #2",
    "Static Reshape (NC) #2",
    "Fully Connected (NC, F32) GEMM #1",
]
# The first and the last but one are parts of the layers after them.
_NODES = [
    ["batch_norm"],
    ["batch_norm", "relu"],
    ["max_pool2d"],
    ["batch_norm_1", "relu_1"],
    ["max_pool2d_1"],
    ["linear"],
    ["linear"],
]


def _method() -> Any:
    return read_program(_PTE).method("forward")


def _debug() -> Any:
    return json.loads(_DEBUG.read_text(encoding="utf-8"))["methods"]["forward"]


def _profile(runs: tuple[Run, ...]) -> Profile:
    return profile_of([runs], _method(), _debug(), builtin_backends())


def _dump(*runs: list[dict[str, Any]]) -> bytes:
    """Returns a file in the runtime's format."""
    root = schema.DumpT(runs=[])
    for events in runs:
        timed = [schema.EventT(timed=schema.TimedT(**{"operationNumber": -1, **each})) for each in events]
        root.runs.append(schema.RunT(name="Execute", events=timed))
    builder = flatbuffers.Builder()
    builder.FinishSizePrefixed(root.Pack(builder), b"ED00")
    return bytes(builder.Output())


def _run(*durations: int) -> Run:
    events = [Event(0, name, time) for name, time in zip(_KERNELS, durations, strict=True)]
    return Run(sum(durations) + 10, (*events, Event(0, None, sum(durations) + 5)))


def test_the_runtimes_file() -> None:
    runs = read_etdump(_ETDUMP)
    assert len(runs) == 4
    for run in runs:
        assert [event.operation for event in run.events] == [*_KERNELS, None]
        assert all(event.instruction == 0 for event in run.events)
        assert 0 <= sum(event.nanoseconds for event in run.events[:-1]) <= run.nanoseconds
    costs = _profile(runs).costs
    assert [cost.operation for cost in costs] == [*_KERNELS, ""]


def test_medians_of_warm_runs_by_node() -> None:
    cold, warm = (9000, *[900] * 6), (0, 40, 20, 10, 5, 0, 7)
    profile = _profile((_run(*cold), _run(*warm), _run(*warm), _run(*[100] * 7)))
    assert (profile.runs, profile.counted, profile.nanoseconds) == (4, 3, sum(warm) + 10)
    assert [cost.nanoseconds for cost in profile.costs] == [*warm, 5]
    assert [[origin.node for origin in cost.origins] for cost in profile.costs[:-1]] == _NODES


def test_each_process_has_a_first_run() -> None:
    cold, warm = _run(*[900] * 7), _run(*[10] * 7)
    profile = profile_of([(cold, warm, warm)] * 3, _method(), _debug(), builtin_backends())
    assert (profile.runs, profile.counted, profile.nanoseconds) == (9, 6, 80)
    assert profile.rounds == (75,) * 3
    assert profile.inputs == ("float32[1, 1, 8, 8]",)


@pytest.mark.parametrize("by", VIEWS)
def test_tables_have_all_of_the_time(by: str) -> None:
    text = format_profile(_profile((_run(*[1_000_000] * 7),)), by)
    assert ", the median of 1 of 1 runs; 7.000 ms in the rows" in text.splitlines()[0]
    rows = [line.split() for line in text.splitlines()[3:]]
    assert sum(float(row[0]) for row in rows) == pytest.approx(7.0, abs=0.01)
    assert sum(float(row[1]) for row in rows) == pytest.approx(100, abs=1)
    wanted = {"line": "network.py:36", "module": "features.0", "operator": "aten.batch_norm.default"}
    wanted["library"] = wanted["line"]
    assert {**wanted, "kernel": "Max Pooling (NHWC, F32)", "step": "max_pool2d_1"}[by] in text


def test_a_call_that_repeats_counts_all_its_runs() -> None:
    once = _run(*[10] * 7)
    twice = Run(2 * once.nanoseconds, once.events * 2)
    assert [(cost.count, cost.nanoseconds) for cost in _profile((twice,)).costs] == [(2, 20)] * 7 + [(2, 10)]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"name": "DELEGATE_CALL", "instruction": 1}, "instruction 1, of 1"),
        ({"operationName": "Add (ND) #1", "instruction": -1}, "instruction -1, of 1"),
        ({"name": "OPERATOR_CALL", "instruction": 2}, "instruction 2, of 1"),
        ({"name": "LOAD"}, "it has no call of XnnpackBackend, instruction 0"),
        (
            {"name": "DELEGATE_CALL", "instruction": 0, "start": 5, "end": 4},
            "ends at 4, before its start at 5",
        ),
    ],
)
def test_another_program(event: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "other.etdump"
    path.write_bytes(_dump([event, {"name": "Method::execute", "start": 0, "end": 9}]))
    with pytest.raises(DelegatecError, match=message) as caught:
        _profile(read_etdump(path))
    assert [problem.code for problem in caught.value.diagnostics] == ["DC362"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an ETDump"),
        (b"PK\x03\x04" + bytes(20), "not an ETDump"),
        (_dump(), "records no execution"),
        (_dump([{"name": "Program::load_method"}]), "records no execution"),
        (_ETDUMP.read_bytes()[:900], "the file ends at byte 900"),
    ],
)
def test_other_files(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "other.etdump"
    path.write_bytes(content)
    with pytest.raises(DelegatecError, match=message) as caught:
        read_etdump(path)
    assert [problem.code for problem in caught.value.diagnostics] == ["DC362"]


def test_damaged_files(tmp_path: Path) -> None:
    """Any value of a byte leads to a result or a diagnostic."""
    draw, good = random.Random(3), _ETDUMP.read_bytes()
    path = tmp_path / "damaged.etdump"
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(draw.randint(1, 4)):
            struct.pack_into("B", bad, draw.randrange(len(bad)), draw.randrange(256))
        path.write_bytes(bad)
        try:
            _profile(read_etdump(path))
        except DelegatecError as error:
            assert [problem.code for problem in error.diagnostics] == ["DC362"]


def test_the_verb(capfd: pytest.CaptureFixture[str]) -> None:
    flags = [str(_ETDUMP), f"--pte={_PTE}", f"--debug={_DEBUG}"]
    assert run_verb(["profile", *flags, "--by=module"]) == 0
    text = capfd.readouterr().out
    assert "the median of 3 of 4 runs" in text and "features.4" in text
    assert run_verb(["profile", *flags, "--format=json"]) == 0
    assert json.loads(capfd.readouterr().out)["method"] == "forward"
    assert run_verb(["profile", *flags, "--method=encode"]) == 2
    assert "expected one of forward" in capfd.readouterr().err
