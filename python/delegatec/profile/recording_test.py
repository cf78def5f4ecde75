# SPDX-License-Identifier: Apache-2.0
"""Profiles of runs on this host, with a runner that only records how it is called."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from delegatec.cli.main import run_verb
from delegatec.frontend.samples_file import save_samples
from delegatec.samples.recorded import RecordedCall, RecordedSamples

_FOLDER = Path(__file__).parent / "testdata"
_IMAGE = torch.rand(1, 1, 8, 8)

Profiler = Callable[..., int]
"""Runs the verb with a body of the runner's script, and flags."""


@pytest.fixture
def profile(tmp_path: Path) -> Profiler:
    calls = [RecordedCall("forward", name, (_IMAGE + number,), ()) for number, name in enumerate("ab")]
    save_samples(RecordedSamples(tuple(calls)), str(tmp_path / "digits.samples.safetensors"))

    def run(body: str, *flags: str) -> int:
        runner = tmp_path / "runner"
        runner.write_text(f'#!/bin/sh\n[ "$*" = --backends ] && echo XnnpackBackend && exit\n{body}\n')
        runner.chmod(0o755)
        files = [f"--pte={_FOLDER / 'digits.pte'}", f"--debug={_FOLDER / 'digits.debug.json'}"]
        return run_verb(["profile", *files, f"--runner={runner}", *flags])

    return run


def _records(folder: Path) -> str:
    """Returns what a runner does: it keeps its arguments, program and inputs, and writes an ETDump."""
    return f"""\
printf '%s\\n' "$@" > {folder}/words
for word; do
  case $word in
    --program=*) cp "${{word#*=}}" {folder}/program.pte ;;
    --etdump=*) cp {_FOLDER}/digits.etdump "${{word#*=}}" ;;
    *.safetensors) [ ! -e "$word" ] || cp "$word" {folder}/inputs.safetensors ;;
  esac
done"""


def test_the_runner_runs_the_first_sample(
    profile: Profiler, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    samples = f"--samples-file={tmp_path}/digits.samples.safetensors"
    (tmp_path / "w.ptd").write_bytes(b"weights")
    flags = [f"--ptd={tmp_path}/w.ptd", "--runs=3", "--etdump-output=kept.etdump", "--by=module"]
    assert profile(_records(tmp_path), samples, *flags) == 0
    assert "features.4" in capfd.readouterr().out
    words = (tmp_path / "words").read_text().splitlines()
    assert words[:3] == ["--program=program.pte", "--method=forward", "--data=program.ptd"]
    assert words[3:5] == ["--single-thread", "--runs=4"]
    assert words[-3:] == ["forward", "program.safetensors", "outputs/outputs.safetensors"]
    torch.testing.assert_close(load_file(tmp_path / "inputs.safetensors"), {"0": _IMAGE})
    assert (tmp_path / "program.pte").read_bytes() == (_FOLDER / "digits.pte").read_bytes()
    assert (tmp_path / "kept.etdump").read_bytes() == (_FOLDER / "digits.etdump").read_bytes()
    assert profile(_records(tmp_path), samples, "--all-threads") == 0
    assert "--single-thread" not in (tmp_path / "words").read_text().splitlines()
    assert profile("exit 1", "kept.etdump") == 0  # a file needs no runner


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (
            "echo 'cannot load method: OperatorMissing' >&2; exit 1",
            "DC501",
            "cannot load digits.pte: cannot load",
        ),
        ("echo 'runner: error: forward fails' >&2; exit 1", "DC505", "fails with digits.pte: forward fails"),
        ("exit 3", "DC505", "it ends with code 3"),
        ("kill -SEGV $$", "DC505", "it ends with code -11"),
    ],
)
def test_runs_that_fail(
    profile: Profiler,
    body: str,
    code: str,
    message: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "kept.etdump"
    samples = f"--samples-file={tmp_path}/digits.samples.safetensors"
    assert profile(body, samples, f"--etdump-output={output}") == 1
    captured = capfd.readouterr()
    assert f"error {code}" in captured.err and message in captured.err and not captured.out
    assert ("adb pull" in captured.err) == (code == "DC501")
    assert not output.exists()


def test_a_backend_that_the_runner_lacks(
    profile: Profiler, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    samples = f"--samples-file={tmp_path}/digits.samples.safetensors"
    assert profile("", samples, "--runner=/bin/true") == 1
    captured = capfd.readouterr().err
    assert "error DC501: the runner has no backend XnnpackBackend, which method 'forward' of" in captured
    assert "--model_path=/data/local/tmp/digits.pte" in captured
    assert "adb pull /data/local/tmp/digits.etdump" in captured
    assert profile("", "--runner=") == 1
    assert "error DC501: there is no runner for this host, and no ETDump" in capfd.readouterr().err
    assert profile("", samples, f"--runner={tmp_path}/missing") == 1
    assert f"DC501: the runner cannot be started: {tmp_path}/missing: No such file" in capfd.readouterr().err


def _times(folder: Path, *runs: int) -> str:
    """Returns what a runner does that takes milliseconds of time, and a tenth of that on CPUs."""
    times = {
        "load": 7_000_000,
        "peak_bytes": 12_340_000,
        "runs": [1_000_000 * each for each in runs],
        "cpu_runs": [100_000 * each for each in runs],
    }
    (folder / "times.json").write_text(json.dumps(times))
    return f"""for word; do
  case $word in --times=*) cp {folder}/times.json "${{word#*=}}" ;; esac
done"""


def test_a_benchmark(profile: Profiler, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    body = _times(tmp_path, 90, *range(20, 0, -1))
    samples = f"--samples-file={tmp_path}/digits.samples.safetensors"
    assert profile(body, samples, "--benchmark", "--item=images", "--items-per-call=2") == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "method forward: 20 runs after the first"
    figures = [line.split()[0] for line in lines[2:]]
    assert figures == ["10.000", "18.000", "20.000", "90.000", "7.000", "200.0", "12.3"]
    assert "images a second" in lines[7]
    assert profile(body, samples, "--benchmark", "--format=json", "--clock=cpu") == 0
    figures = json.loads(capfd.readouterr().out)
    assert [figures[name] for name in ("kind", "clock", "runs", "inputs")] == [
        "benchmark",
        "cpu",
        20,
        ["float32[1, 1, 8, 8]"],
    ]
    assert [figures[name] for name in ("p50", "p90", "p99", "first")] == [1e6, 1.8e6, 2e6, 9e6]
    assert (figures["items_per_second"], figures["peak_bytes"]) == (1000, 12_340_000)
    assert figures["rounds"] == [[100_000 * each for each in range(20, 0, -1)]]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "no call of method 'forward'"),
        (["--runs=0"], "expected an integer from 1"),
        (["a.etdump", "--etdump-output=b.etdump"], "expected no IN.etdump"),
        (["--benchmark", "a.etdump"], "expected no ETDump"),
        (["--benchmark", "--etdump-output=b.etdump"], "expected no ETDump"),
        (["--rounds=2", "--etdump-output=b.etdump"], "expected no --baseline or --rounds"),
        (["--html=a.html", "--benchmark"], "--html needs a profile, without --benchmark"),
        (["--clock=cpu"], "--clock needs --benchmark"),
        (["--maximum-ratio=1"], "--maximum-ratio needs --baseline"),
        (["--maximum-ratio=-1"], "expected a number above 0"),
        (["--run-under-argument=a"], "--run-under-argument needs --run-under"),
        (["a.etdump", "--rounds=3"], "--rounds needs runs, without IN.etdump"),
    ],
)
def test_mistakes(
    profile: Profiler, flags: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert profile("exit 1", *flags) == 2
    assert message in capfd.readouterr().err
