# SPDX-License-Identifier: Apache-2.0
"""Runs of a program in ExecuTorch's runtime on this host, which records how long they take."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import torch
from safetensors.torch import save_file

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.program.reader.model import Program

_FOLDER: Final = "/data/local/tmp"
_NUMBERS: Final = {bool: torch.bool, int: torch.int64, float: torch.float64}
# What the runner reports if the runtime lacks a kernel, or an operator of a backend.
_NOT_LOADED: Final = "cannot load"


@dataclass(frozen=True)
class Times:
    """What runs of a method took.

    Attributes:
        load: nanoseconds that the loading of the program took.
        runs: nanoseconds of each run, in order.
        peak_bytes: the most memory of the process at once, including the pages of the file that it has read.
    """

    load: int
    runs: tuple[int, ...]
    peak_bytes: int


@dataclass(frozen=True)
class Recorder:
    """Runs programs with `//runtime:runner`.

    Attributes:
        runner: path of the executable.
        pte: the program.
        ptd: its external weights; "" for none.
        single_thread: whether it runs without a thread pool.
    """

    runner: str
    pte: str
    ptd: str = ""
    single_thread: bool = True

    def check(self, program: Program) -> None:
        """Raises DC501, one diagnostic for each backend of the program that the runner lacks."""
        present = self._run(["--backends"]).split()
        called = {each.id: method.name for method in program.methods for each in method.delegates}
        problems = [
            Diagnostic(
                "DC501",
                f"the runner of this host has no backend {backend}, which method {method!r} calls",
                expected=f"one of its backends: {', '.join(sorted(present))}" if present else "no delegates",
                help=device_help(self.pte),
            )
            for backend, method in called.items()
            if backend not in present
        ]
        if problems:
            raise DelegatecError(problems)

    def record(self, method: str, inputs: Sequence[Any], runs: int, etdump: str) -> None:
        """Runs a method several times in a row, from the program's initial state.

        Args:
            method: its name.
            inputs: one for each of its inputs: tensors, numbers, strings and None.
            runs: how often it runs.
            etdump: the file to write.

        Raises:
            DelegatecError: DC501, the runtime rejects the program; DC505, a run fails.
        """
        self._call(method, inputs, runs, [f"--etdump={etdump}"])

    def measure(self, method: str, inputs: Sequence[Any], runs: int) -> Times:
        """Runs a method several times in a row like `record`, without recording events.

        Args:
            method: its name.
            inputs: one for each of its inputs.
            runs: how often it runs.

        Raises:
            DelegatecError: as from `record`.
        """
        with tempfile.TemporaryDirectory(prefix="delegatec-profile-") as folder:
            path = Path(folder, "times.json")
            self._call(method, inputs, runs, [f"--times={path}"])
            times = json.loads(path.read_text(encoding="utf-8"))
        return Times(times["load"], tuple(times["runs"]), times["peak_bytes"])

    def _call(self, method: str, inputs: Sequence[Any], runs: int, flags: Sequence[str]) -> None:
        tensors = {
            str(position): _tensor(value)
            for position, value in enumerate(inputs)
            if isinstance(value, torch.Tensor | bool | int | float)
        }
        with tempfile.TemporaryDirectory(prefix="delegatec-profile-") as folder:
            given, returned = (f"{folder}/{name}.safetensors" for name in ("inputs", "outputs"))
            save_file(tensors, given)
            flags = [f"--program={self.pte}", f"--method={method}", f"--runs={runs}", *flags]
            flags += [f"--data={self.ptd}"] if self.ptd else []
            flags += ["--single-thread"] if self.single_thread else []
            self._run([*flags, method, given, returned])

    def _run(self, arguments: Sequence[str]) -> str:
        runner = Path(self.runner).absolute()
        done = subprocess.run(
            [runner, *arguments], check=False, capture_output=True, text=True, errors="replace"
        )
        if done.returncode:
            self._fail(done.stderr.strip() or f"it ends with code {done.returncode}")
        return done.stdout

    def _fail(self, log: str) -> NoReturn:
        reason = "; ".join(line.removeprefix("runner: error: ") for line in log.splitlines())
        if _NOT_LOADED in reason:
            message = f"the runner of this host cannot load {Path(self.pte).name}: {reason}"
            raise DelegatecError([Diagnostic("DC501", message, help=device_help(self.pte))])
        raise DelegatecError([Diagnostic("DC505", f"the runner fails with {Path(self.pte).name}: {reason}")])


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
