# SPDX-License-Identifier: Apache-2.0
"""Runs of programs in ExecuTorch's runtime, on this host or elsewhere, which record how long they take."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import torch
from safetensors.torch import save_file

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.files import HEAD_BYTES, kind_of_file
from delegatec.profile.etdump import Run, read_etdump
from delegatec.program.reader.model import Method

_Result = TypeVar("_Result")

OUTPUTS: Final = "outputs"
"""The folder of a session that a run writes to."""
_FOLDER: Final = "/data/local/tmp"
_NUMBERS: Final = {bool: torch.bool, int: torch.int64, float: torch.float64}
# What the runner reports if the runtime lacks a kernel, or an operator of a backend.
_NOT_LOADED: Final = "cannot load"
_CONTRACT: Final = (
    "it runs its arguments where a copy of the working directory is, ends with their exit code, and copies "
    f"the folder {OUTPUTS}/ back"
)


@dataclass(frozen=True)
class Times:
    """What one process took.

    Attributes:
        load: nanoseconds that the loading of the program took.
        runs: nanoseconds of each run, in order.
        cpu_runs: nanoseconds that its threads ran on CPUs in each run.
        peak_bytes: the most memory of the process at once, including the pages of the file that it has read.
    """

    load: int
    runs: tuple[int, ...]
    cpu_runs: tuple[int, ...]
    peak_bytes: int


@dataclass(frozen=True)
class Host:
    """What runs programs.

    Attributes:
        runner: path of an executable of `//runtime:runner`.
        run_under: the words of a command that runs the runner elsewhere, such as on a phone, if its path and
            arguments follow; empty for this host.
        single_thread: whether programs run without a thread pool.
    """

    runner: str
    run_under: tuple[str, ...] = ()
    single_thread: bool = True


class Session:
    """A folder with all files of programs that run in turns.

    Arguments of the runner name files in it, relative to it, so that `run_under` can copy it to a device.

    Args:
        host: what runs them.
        folder: an empty folder.
    """

    def __init__(self, host: Host, folder: str) -> None:
        self.host = host
        self.folder = Path(folder)
        (self.folder / OUTPUTS).mkdir()
        # It may change its working directory.
        self._command = [*host.run_under, str(Path(host.runner).absolute())]

    def add(self, name: str, pte: str, ptd: str, method: str, inputs: Sequence[Any]) -> Recorder:
        """Adds a program.

        Args:
            name: stem of the names of its files.
            pte: the program.
            ptd: its external weights; "" for none.
            method: the method that runs.
            inputs: one for each of its inputs: tensors, numbers, strings and None.
        """
        tensors = {
            str(position): _tensor(value)
            for position, value in enumerate(inputs)
            if isinstance(value, torch.Tensor | bool | int | float)
        }
        given = f"{name}.safetensors"
        save_file(tensors, self.folder / given)
        self._copy(pte, f"{name}.pte")
        flags = [f"--program={name}.pte", f"--method={method}"]
        if ptd:
            self._copy(ptd, f"{name}.ptd")
            flags.append(f"--data={name}.ptd")
        if self.host.single_thread:
            flags.append("--single-thread")
        call = (method, given, f"{OUTPUTS}/outputs.safetensors")
        return Recorder(self, pte, tuple(flags), call)

    def backends(self, pte: str) -> list[str]:
        """Returns the ids of the backends of the runner, sorted.

        Args:
            pte: a program, for messages.
        """
        return sorted(self.run(["--backends"], pte).split())

    def run(self, arguments: Sequence[str], pte: str) -> str:
        """Runs the runner, and returns what it prints.

        Args:
            arguments: of the runner.
            pte: the program that runs, for messages.

        Raises:
            DelegatecError: DC501, the runtime rejects the program; DC505, a run fails; DC526, `run_under`
                cannot be started.
        """
        try:
            done = subprocess.run(
                [*self._command, *arguments],
                check=False,
                capture_output=True,
                text=True,
                errors="replace",
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
            )
        except OSError as error:
            self._fail_to_start(error)
        if done.returncode:
            log = done.stderr.strip() or f"it ends with code {done.returncode}"
            self._fail("; ".join(line.removeprefix("runner: error: ") for line in log.splitlines()), pte)
        return done.stdout

    def output(self, name: str) -> Path:
        """Returns the path of a file that the last run has written, and checks that it exists.

        Raises:
            DelegatecError: DC526, it does not.
        """
        path = self.folder / OUTPUTS / name
        if not path.is_file():
            message = f"{self._shown()} ends with code 0, and {OUTPUTS}/{name} is missing"
            raise DelegatecError([Diagnostic("DC526", message, expected=_CONTRACT)])
        return path

    def _copy(self, source: str, name: str) -> None:
        target, source = self.folder / name, os.path.abspath(source)
        if not self.host.run_under:
            target.symlink_to(source)
            return
        try:
            os.link(os.path.realpath(source), target)
        except OSError:  # such as of another file system
            shutil.copy2(source, target)

    def _shown(self) -> str:
        return (
            f"the command of --run-under, {self.host.run_under[0]}," if self.host.run_under else "the runner"
        )

    def _fail_to_start(self, error: OSError) -> NoReturn:
        what = self.host.run_under[0] if self.host.run_under else self.host.runner
        code = "DC526" if self.host.run_under else "DC501"
        message = f"{self._shown()} cannot be started: {what}: {error.strerror}"
        help = _CONTRACT if self.host.run_under else "pass an executable of //runtime:runner for this host"
        raise DelegatecError([Diagnostic(code, message, help=help)])

    def _fail(self, reason: str, pte: str) -> NoReturn:
        where = "the runner" if self.host.run_under else "the runner of this host"
        if _NOT_LOADED in reason:
            message = f"{where} cannot load {Path(pte).name}: {reason}"
            raise DelegatecError([Diagnostic("DC501", message, help=device_help(pte))])
        raise DelegatecError([Diagnostic("DC505", f"the runner fails with {Path(pte).name}: {reason}")])


@dataclass(frozen=True)
class Recorder:
    """Runs a method of a program in a session.

    Attributes:
        session: the folder that contains the program.
        pte: path of the program, for messages.
        flags: of the runner, for this program.
        call: method, inputs and outputs.
    """

    session: Session
    pte: str
    flags: tuple[str, ...]
    call: tuple[str, ...]

    def record(self, runs: int) -> tuple[Run, ...]:
        """Runs it several times in a row, from the program's initial state, and reads what was recorded.

        Args:
            runs: how often it runs.

        Raises:
            DelegatecError: DC362, the recording is damaged; others as from `Session.run`.
        """
        return read_etdump(self.etdump(runs))

    def etdump(self, runs: int) -> Path:
        """Runs it like `record`, and returns the file of the recording, which the next run removes."""
        return self._output("runs.etdump", "etdump", runs)

    def measure(self, runs: int) -> Times:
        """Runs it like `record`, without recording events."""
        path = self._output("times.json", "times", runs)
        content = path.read_bytes()
        try:
            times = json.loads(content)
            lists = [tuple(int(each) for each in times[name]) for name in ("runs", "cpu_runs")]
            return Times(int(times["load"]), lists[0], lists[1], int(times["peak_bytes"]))
        except (ValueError, KeyError, TypeError) as error:
            message = f"{OUTPUTS}/{path.name} is not of this runner: {kind_of_file(content[:HEAD_BYTES])}"
            help = "build the runner, //runtime:runner, from the same version of the rules"
            raise DelegatecError([Diagnostic("DC526", message, help=help)]) from error

    def _output(self, name: str, flag: str, runs: int) -> Path:
        for old in (self.session.folder / OUTPUTS).iterdir():
            old.unlink()
        flags = [*self.flags, f"--runs={runs}", f"--{flag}={OUTPUTS}/{name}"]
        self.session.run([*flags, *self.call], self.pte)
        return self.session.output(name)


def in_turns(
    recorders: Sequence[Recorder], rounds: int, run: Callable[[Recorder], _Result]
) -> list[list[_Result]]:
    """Runs programs in turns, so that a slow moment of the machine affects all of them.

    Args:
        recorders: the programs.
        rounds: how often each of them runs; every other round is in reverse order.
        run: runs one.

    Returns:
        The results of each program, in order of the rounds.
    """
    results: list[list[_Result]] = [[] for _ in recorders]
    for number in range(rounds):
        for index in range(len(recorders)) if number % 2 == 0 else reversed(range(len(recorders))):
            results[index].append(run(recorders[index]))
    return results


def missing_backends(methods: Mapping[str, Method], present: Sequence[str]) -> list[Diagnostic]:
    """Returns DC501, one diagnostic for each backend that a runner lacks.

    Args:
        methods: path of each program -> the method that runs.
        present: ids of the runner's backends, sorted.
    """
    return [
        Diagnostic(
            "DC501",
            f"the runner has no backend {backend}, which method {method.name!r} of {Path(pte).name} calls",
            expected=f"one of its backends: {', '.join(present)}" if present else "no delegates",
            help=device_help(pte),
        )
        for pte, method in methods.items()
        for backend in dict.fromkeys(each.id for each in method.delegates)
        if backend not in present
    ]


def device_help(pte: str) -> str:
    """Returns how a device records a program, with the runner of ExecuTorch's source tree."""
    path = f"{_FOLDER}/{Path(pte).stem}"
    return (
        f"record it on the device: adb shell {_FOLDER}/executor_runner --model_path={path}.pte"
        f" --num_executions=21 --etdump_path={path}.etdump; adb pull {path}.etdump; then pass this file"
    )


def _tensor(value: Any) -> torch.Tensor:
    """Returns an input as the runner reads it: row-major, and a number without dimensions."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone(memory_format=torch.contiguous_format)
    return torch.tensor(value, dtype=_NUMBERS[type(value)])
