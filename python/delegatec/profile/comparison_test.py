# SPDX-License-Identifier: Apache-2.0
"""Comparisons with a baseline: programs in turns, and what was measured before."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from delegatec.cli.main import run_verb
from delegatec.frontend.samples_file import save_samples
from delegatec.profile.ratio import Ratio, over_limit, ratio_of
from delegatec.samples.recorded import RecordedCall, RecordedSamples

_FOLDER = Path(__file__).parent / "testdata"
_PTE, _DEBUG, _ETDUMP = (_FOLDER / f"digits.{suffix}" for suffix in ("pte", "debug.json", "etdump"))

Verb = Callable[..., int]
"""Runs the verb on the program, with flags."""


@pytest.fixture
def verb(tmp_path: Path) -> Iterator[Verb]:
    """A runner that keeps the order of its calls; the baseline takes twice as long as the program."""
    call = RecordedCall("forward", "a", (torch.rand(1, 1, 8, 8),), ())
    save_samples(RecordedSamples((call,)), str(tmp_path / "digits.samples.safetensors"))
    shutil.copy(_PTE, tmp_path / "base.pte")
    for name, milliseconds in (("program", 3), ("baseline", 6)):
        times = [milliseconds * 1_000_000] * 5
        figures = {
            "load": 1_000_000,
            "peak_bytes": 2_000_000,
            "runs": [9_000_000, *times[1:]],
            "cpu_runs": times,
        }
        (tmp_path / f"{name}.json").write_text(json.dumps(figures))
    (tmp_path / "runner").write_text(f"""#!/bin/sh
[ "$*" = --backends ] && echo XnnpackBackend && exit
for word; do
  case $word in
    --program=*) name=${{word#*=}} ;;
    --times=*) times=${{word#*=}} ;;
    --etdump=*) cp {_ETDUMP} "${{word#*=}}" ;;
  esac
done
echo "$name" "$@" >> {tmp_path}/calls
[ -z "$times" ] || cp "{tmp_path}/${{name%.pte}}.json" "$times"
""")
    (tmp_path / "runner").chmod(0o755)
    flags = [f"--pte={_PTE}", f"--debug={_DEBUG}", f"--runner={tmp_path}/runner"]
    flags += [f"--samples-file={tmp_path}/digits.samples.safetensors"]
    yield lambda *more: run_verb(["profile", *flags, *more])


def test_programs_run_in_turns(verb: Verb, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    base = f"--baseline={tmp_path}/base.pte"
    assert verb("--benchmark", base, "--runs=12", "--rounds=3", "--format=json") == 0
    figures = json.loads(capfd.readouterr().out)
    assert figures["ratio"] == {"median": 0.5, "lower": 0.5, "upper": 0.5, "rounds": 3, "in_turns": True}
    assert (figures["p50"], figures["first"]) == (3_000_000, 9_000_000)
    assert (figures["baseline"]["p50"], figures["baseline"]["runs"]) == (6_000_000, 12)
    calls = [line.split() for line in (tmp_path / "calls").read_text().splitlines()]
    assert [words[0] for words in calls] == [
        *("program.pte", "baseline.pte"),
        *("baseline.pte", "program.pte"),
        *("program.pte", "baseline.pte"),
    ]
    assert all("--runs=5" in words for words in calls)
    assert verb("--benchmark", base, "--runs=1") == 0  # not more rounds than runs
    assert "ratio: 0.500, in turns" in capfd.readouterr().out


def test_a_limit(verb: Verb, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    base = f"--baseline={tmp_path}/base.pte"
    assert verb("--benchmark", base, "--maximum-ratio=0.5") == 0
    capfd.readouterr()
    assert verb("--benchmark", base, "--maximum-ratio=0.4") == 1
    captured = capfd.readouterr()
    assert "ratio: 0.500" in captured.out
    assert "error DC525: digits.pte takes 0.500 times as long as base.pte" in captured.err
    assert "expected: at most 0.4" in captured.err


def test_lines_of_both(verb: Verb, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    base = f"--baseline={tmp_path}/base.pte"
    shutil.copy(_DEBUG, tmp_path / "other.json")
    debug = f"--baseline-debug={tmp_path}/other.json"
    assert verb(base, debug, "--by=module") == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[2].startswith("ratio: 1.000") and lines[4].split() == ["ms", "baseline", "change", "module"]
    rows = [line.split() for line in lines[5:]]
    assert "features.4" in [row[3] for row in rows]
    assert all(row[0] == row[1] and float(row[2]) == 0 for row in rows)
    # Next to the program, as the rules write it.
    shutil.copy(_DEBUG, tmp_path / "base.debug.json")
    assert verb(base, "--by=line") == 0
    assert "network.py:36" in capfd.readouterr().out


def test_a_program_without_lines(verb: Verb, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert verb(f"--baseline={tmp_path}/base.pte") == 0
    text = capfd.readouterr().out
    assert "change  kernel" in text and "Max Pooling (NHWC, F32)" in text
    assert verb(f"--baseline={tmp_path}/base.pte", "--by=line") == 2
    assert "has no debug map: expected --baseline-debug, or --by=kernel" in capfd.readouterr().err


def test_what_was_measured_before(verb: Verb, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = {}
    for kind, flags in (("profile", ()), ("benchmark", ("--benchmark", "--clock=cpu"))):
        assert verb(*flags, "--format=json") == 0
        before[kind] = tmp_path / f"{kind}.json"
        before[kind].write_text(capfd.readouterr().out)
    document = json.loads(before["profile"].read_text())
    for cost in document["costs"]:
        if cost["operation"] == "Fully Connected (NC, F32) GEMM #1":
            cost["nanoseconds"] += 5_000_000
    before["profile"].write_text(json.dumps(document))
    assert verb(str(_ETDUMP), f"--baseline={before['profile']}", "--by=operator") == 0
    lines = capfd.readouterr().out.splitlines()
    assert "the baseline in another session" in lines[2]
    assert lines[5].split()[2:] == ["-5.000", "aten.linear.default"]
    assert verb("--benchmark", "--clock=cpu", f"--baseline={before['benchmark']}") == 0
    # Several processes, as of a program that runs in turns: one slow process does not decide.
    ratio = "ratio: 1.000 (1.000 to 1.000 in half of 9 rounds), the baseline in another session"
    assert ratio in capfd.readouterr().out
    limit = "--maximum-ratio=0.5"
    assert verb(str(_ETDUMP), f"--baseline={before['profile']}", limit) == 1
    assert "times as long as profile.json\n" in capfd.readouterr().err  # nothing about rounds: there is one
    # Files of another kind.
    assert verb("--benchmark", f"--baseline={before['profile']}") == 2
    assert "is a profile: expected a benchmark" in capfd.readouterr().err
    assert verb("--benchmark", f"--baseline={before['benchmark']}") == 2
    assert "has times of --clock=cpu: expected the same" in capfd.readouterr().err
    assert verb(f"--baseline={before['profile']}", f"--baseline-debug={_DEBUG}") == 2
    assert "--baseline-debug needs a .pte as --baseline" in capfd.readouterr().err
    assert verb(str(_ETDUMP), f"--baseline={tmp_path}/base.pte") == 2
    assert "has been recorded before: expected what --format=json has printed" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"inputs": ["float32[1, 3]"]}, 1, "takes other inputs for method 'forward': float32[1, 3]"),
        ({"method": "encode"}, 2, "is of method 'encode': expected 'forward'"),
        ({"schema_version": 9}, 2, "it has schema version 9, expected 1"),
        ({"kind": "index"}, 2, "it is neither a profile nor a benchmark"),
        ({"kind": []}, 2, "it is neither a profile nor a benchmark"),
        ({"rounds": []}, 2, ".rounds is empty"),
        ({"costs": [{"calls": 3}]}, 2, ".costs[0] has no"),
    ],
)
def test_other_documents(
    verb: Verb,
    change: dict[str, object],
    code: int,
    message: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert verb(str(_ETDUMP), "--format=json") == 0
    document = {**json.loads(capfd.readouterr().out), **change}
    (tmp_path / "before.json").write_text(json.dumps(document))
    assert verb(str(_ETDUMP), f"--baseline={tmp_path}/before.json") == code
    assert message in capfd.readouterr().err


def test_a_ratio_with_its_spread() -> None:
    rounds, base = [9, 99, 19], [10, 10, 20]
    in_turns = ratio_of(rounds, base, in_turns=True)
    assert in_turns == Ratio(median=0.95, lower=0.925, upper=5.425, rounds=3, in_turns=True)
    apart = ratio_of([9, 11], [10, 20], in_turns=False)
    assert (apart.median, apart.lower, apart.upper) == pytest.approx((0.725, 0.525, 0.95))
    assert ratio_of([3], [2], in_turns=True).upper == 1.5


@pytest.mark.parametrize(("limit", "fails"), [(None, False), (0.92, True), (0.925, False), (2.0, False)])
def test_the_lower_quartile_decides(limit: float | None, fails: bool) -> None:
    ratio = Ratio(median=0.95, lower=0.925, upper=5.425, rounds=3, in_turns=True)
    assert [each.code for each in over_limit(ratio, limit, "a.pte", "b.pte")] == ["DC525"] * fails
