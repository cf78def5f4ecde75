# SPDX-License-Identifier: Apache-2.0
"""Runs elsewhere: the commands of `--run-under`, and `adb.sh` with a folder as the phone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from delegatec.cli.main import run_verb
from delegatec.frontend.samples_file import save_samples
from delegatec.samples.recorded import RecordedCall, RecordedSamples

_FOLDER = Path(__file__).parent / "testdata"
_PTE, _DEBUG, _ETDUMP = (_FOLDER / f"digits.{suffix}" for suffix in ("pte", "debug.json", "etdump"))
_ADB_SH = Path(__file__).parents[3] / "runtime" / "adb.sh"

# A client: the phone's files are below $PHONE. Like adb, it does not copy older files with --sync, copies a
# folder to one of its name, and ends with the code of the phone's command.
_ADB = """#!/bin/sh
echo "$*" >> "$PHONE.log"
case $1 in
  shell) shift; exec sh -c "$(printf %s "$*" | sed "s|/data/local/tmp|$PHONE/data/local/tmp|g")" ;;
  push)
    [ "$2" = --sync ] || exit 3
    target=$PHONE$4
    [ ! -d "$target" ] || target=$target/${3##*/}
    if [ -e "$target" ] && [ ! "$3" -nt "$target" ]; then exit; fi
    echo "copied ${3##*/}" >> "$PHONE.log"; cp -p "$3" "$target" && echo "$3: pushed" ;;
  pull) echo "pulled"; cp -r "$PHONE$2" "$3" ;;
  *) exit 4 ;;
esac
"""
_RUNNER = f"""#!/bin/sh
[ "$*" = --backends ] && echo XnnpackBackend && exit
for word; do
  case $word in
    --program=*) [ -s "${{word#*=}}" ] || exit 5 ;;
    --etdump=*) cp {_ETDUMP} "${{word#*=}}" ;;
    --times=*) echo '{{"load": 1, "peak_bytes": 2, "runs": [9, 3], "cpu_runs": [9, 3]}}' > "${{word#*=}}" ;;
  esac
done
[ ! -e wrong ] && [ -s program.safetensors ]
"""


def _script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Flags of a runner for the phone, and an environment in which adb finds the phone."""
    call = RecordedCall("forward", "a", (torch.rand(1, 1, 8, 8),), ())
    save_samples(RecordedSamples((call,)), str(tmp_path / "digits.samples.safetensors"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "phone" / "data" / "local" / "tmp").mkdir(parents=True)
    _script(tmp_path / "bin" / "adb", _ADB)
    _script(tmp_path / "android_runner", _RUNNER)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=":")
    monkeypatch.setenv("PHONE", f"{tmp_path}/phone")
    monkeypatch.chdir(tmp_path)
    return [
        "profile",
        *(f"--pte={_PTE}", f"--debug={_DEBUG}", "--samples-file=digits.samples.safetensors"),
        *("--runner=android_runner", f"--run-under={_ADB_SH}"),
    ]


def test_a_profile_of_a_phone(flags: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_verb([*flags, "--by=module", "--etdump-output=kept.etdump"]) == 0
    assert "features.4" in capfd.readouterr().out
    assert Path("kept.etdump").read_bytes() == _ETDUMP.read_bytes()
    folder = tmp_path / "phone" / "data" / "local" / "tmp" / "delegatec"
    names = {path.name for path in folder.iterdir()}
    assert names == {".directory", "runner", "program.pte", "program.safetensors", "outputs"}


def test_a_benchmark_of_a_phone_copies_once(
    flags: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(_PTE, "base.pte")
    more = ["--benchmark", "--baseline=base.pte", "--rounds=2", "--runs=2", "--format=json"]
    assert run_verb([*flags, *more]) == 0
    figures = json.loads(capfd.readouterr().out)
    assert (figures["p50"], figures["baseline"]["p50"], figures["load"]) == (3, 3, 1)
    log = (tmp_path / "phone.log").read_text().splitlines()
    assert sum(line.startswith("pull") for line in log) == 5  # its backends, and four processes
    assert sum("exec ./runner" in line for line in log) == 5
    copied = [line.removeprefix("copied ") for line in log if line.startswith("copied ")]
    assert sorted(copied) == [
        "android_runner",
        "baseline.pte",
        "baseline.safetensors",
        "program.pte",
        "program.safetensors",
    ]


def test_another_program_of_the_same_time_is_copied(flags: list[str], tmp_path: Path) -> None:
    """adb compares times alone, in seconds, and all programs have the same name on the phone."""
    phone = tmp_path / "phone" / "data" / "local" / "tmp" / "delegatec"
    for name in ("one", "another"):
        session = tmp_path / name
        (session / "outputs").mkdir(parents=True)
        (session / "program.pte").write_text(name)
        os.utime(session / "program.pte", (1_700_000_000, 1_700_000_000))
        for _ in range(2):
            command = [_ADB_SH, tmp_path / "android_runner", "--backends"]
            assert subprocess.run(command, cwd=session, check=False).returncode == 0
            assert (phone / "program.pte").read_text() == name
    log = (tmp_path / "phone.log").read_text().splitlines()
    assert [line for line in log if line.startswith("copied ")] == [
        "copied android_runner",
        "copied program.pte",
    ] * 2


def test_words_reach_the_phone_unchanged(
    flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    runner = _script(tmp_path / "words", "#!/bin/sh\nprintf '%s|' \"$@\" > outputs/words\nexit 3\n")
    (tmp_path / "session" / "outputs").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "session")
    words = ["a b", "it's", '$HOME "x"', "", "*"]
    assert os.spawnv(os.P_WAIT, _ADB_SH, [str(_ADB_SH), str(runner), *words]) == 3
    there = tmp_path / "phone" / "data" / "local" / "tmp" / "delegatec" / "outputs" / "words"
    assert there.read_text() == "|".join(words) + "|"


@pytest.mark.parametrize(
    ("under", "code", "message"),
    [
        ("./missing", "DC526", "the command of --run-under, {0}/missing, cannot be started"),
        ("no_such_program", "DC526", "cannot be started: no_such_program: No such file or directory"),
        ("#!/bin/sh\nexit 0", "DC501", "the runner has no backend XnnpackBackend"),
        ('#!/bin/sh\nfor w; do [ $w != --backends ] || exec "$@"; done', "DC526", "runs.etdump is missing"),
        ("#!/bin/sh\necho 'no devices' >&2; exit 1", "DC505", "the runner fails with digits.pte: no devices"),
    ],
)
def test_commands_that_fail(
    flags: list[str],
    under: str,
    code: str,
    message: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    if under.startswith("#!"):
        _script(tmp_path / "under", under)
        under = "./under"
    assert run_verb([*flags, f"--run-under={under}"]) == 1
    error = capfd.readouterr().err
    assert f"error {code}" in error and message.format(tmp_path) in error


def test_times_of_another_runner(flags: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _script(
        tmp_path / "android_runner",
        _RUNNER.replace('"cpu_runs": [9, 3]', '"a": 1'),
    )
    assert run_verb([*flags, "--benchmark"]) == 1
    assert "error DC526: outputs/times.json is not of this runner" in capfd.readouterr().err


def test_arguments_of_the_command(
    flags: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _script(tmp_path / "bin" / "qemu", '#!/bin/sh\n[ "$1 $2" = "-cpu max" ] || exit 9\nshift 2\nexec "$@"\n')
    arguments = ["--run-under=qemu", "--run-under-argument=-cpu", "--run-under-argument=max"]
    assert run_verb([*flags, *arguments]) == 0
    assert "network.py:36" in capfd.readouterr().out
