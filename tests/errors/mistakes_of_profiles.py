# SPDX-License-Identifier: Apache-2.0
"""Mistakes in profiles, benchmarks, and what they are compared with."""

from __future__ import annotations

import json
import os
from typing import Any, Final

import flatbuffers
from delegatec_schemas import etdump
from mistake import Mistake, run, usage

_COMMAND: Final = "profile --label=//pkg:net --pte=mps.pte --debug=mps.json"
_RUN: Final = f"{_COMMAND} --program=good.pt2 --runner=./runner"
# It has the backend of the program, and must not run it.
_RUNNER: Final = """#!/bin/sh
[ "$*" = --backends ] && echo MPSBackend
"""


def _recorded(*events: dict[str, Any]) -> bytes:
    """Returns an ETDump of one run."""
    timed = [etdump.EventT(timed=etdump.TimedT(**{"operationNumber": -1, **each})) for each in events]
    timed.append(etdump.EventT(timed=etdump.TimedT(name="Method::execute", operationNumber=-1, end=9)))
    builder = flatbuffers.Builder()
    root = etdump.DumpT(runs=[etdump.RunT(name="Execute", events=timed)])
    builder.FinishSizePrefixed(root.Pack(builder), b"ED00")
    return bytes(builder.Output())


def _document(**fields: object) -> str:
    """Returns what a benchmark printed."""
    document = {
        "schema_version": 1,
        "kind": "benchmark",
        "method": "forward",
        "inputs": ["float32[2, 3]"],
        "clock": "wall",
        "rounds": [[100]],
        "first": 100,
        "load": 100,
        "peak_bytes": 100,
    }
    return json.dumps({**document, **fields})


def _profile(does: str, code: str, *words: str, flags: str, command: str = _RUN, **more: Any) -> Mistake:
    """A use of `profile` with a runner."""
    files = {"runner": _RUNNER, **more.pop("files", {})}
    command = f"{command} {flags}"
    return run(does, code, *words, command=command, files=files, before=_make_executable, **more)


def _make_executable() -> None:
    os.chmod("runner", 0o755)


_OTHER: Final = _recorded(
    {"name": "DELEGATE_CALL", "instruction": 0, "end": 3},
    {"name": "native_call_cos.out", "instruction": 1, "end": 3},
    {"name": "OPERATOR_CALL", "instruction": 1, "end": 4},
)
PROFILES: Final = (
    run(
        "passes the recording of another program",
        "DC362",
        "the ETDump is of another program than method 'forward'",
        command=f"{_COMMAND} other.etdump",
        files={"other.etdump": _OTHER},
    ),
    run(
        "passes a recording that ends early",
        "DC362",
        "the file ends at byte 60",
        command=f"{_COMMAND} cut.etdump",
        files={"cut.etdump": _OTHER[:60]},
    ),
    run(
        "passes a program as a recording",
        "DC362",
        "not an ETDump",
        command=f"{_COMMAND} good.pte",
    ),
    run(
        "misspells the name of a recording",
        "DC002",
        "phone.etdump",
        command=f"{_COMMAND} phone.etdump",
    ),
    run(
        "names a runner that does not exist",
        "DC501",
        "the runner cannot be started",
        command=f"{_COMMAND} --program=good.pt2 --runner=./rumner",
        recorded=False,
    ),
    _profile(
        "names a command that is not installed",
        "DC526",
        "the command of --run-under, adbb, cannot be started",
        flags="--run-under=adbb",
    ),
    _profile(
        "has a command that does not run the program",
        "DC526",
        "the command of --run-under, echo, ends with code 0, and outputs/times.json is missing",
        flags="--benchmark --run-under=echo --run-under-argument=MPSBackend",
    ),
    _profile(
        "compares with a benchmark of other inputs",
        "DC504",
        "--baseline=before.json takes other inputs for method 'forward': float32[1, 9]",
        "float32[2, 3]",
        flags="--benchmark --baseline=before.json",
        files={"before.json": _document(inputs=["float32[1, 9]"])},
    ),
    _profile(
        "compares with a benchmark of another method",
        "DC001",
        "is of method 'encode': expected 'forward'",
        flags="--benchmark --baseline=before.json",
        files={"before.json": _document(method="encode")},
        exit=2,
    ),
    _profile(
        "compares a profile with a benchmark",
        "DC001",
        "--baseline=before.json is a benchmark: expected a profile",
        flags="--baseline=before.json",
        files={"before.json": _document()},
        exit=2,
    ),
    _profile(
        "compares with a file of another kind",
        "DC001",
        "--baseline=good.pt2 is neither a program nor what --format=json has printed",
        flags="--baseline=good.pt2",
        exit=2,
    ),
    _profile(
        "asks for lines of a program without a debug map",
        "DC001",
        "--baseline=mps.pte has no debug map: expected --baseline-debug, or --by=kernel",
        flags="--baseline=mps.pte --by=line",
        exit=2,
    ),
    usage(
        "limits the time without a baseline",
        "--maximum-ratio needs --baseline",
        command=f"{_RUN} --benchmark --maximum-ratio=1.1",
    ),
    usage(
        "sets the number of runs that have been recorded",
        "--runs needs runs, without IN.etdump",
        command=f"{_COMMAND} --runs=5 good.pte",
    ),
    usage(
        "chooses rows of the JSON, which has all figures",
        "--by needs --format=text",
        command=f"{_RUN} --format=json --by=module",
    ),
    usage(
        "writes the number of runs as a word",
        "argument --runs: many: expected an integer from 1 to 999999",
        command=f"{_RUN} --runs=many",
    ),
    usage(
        "asks for the page of a benchmark",
        "--html needs a profile, without --benchmark",
        command=f"{_RUN} --benchmark --html=net.html",
    ),
)
TABLE: Final = {"Profiles": PROFILES}
