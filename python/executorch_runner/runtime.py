# SPDX-License-Identifier: Apache-2.0
"""A `delegatec.verify.runtime.Runtime` of `//runtime:runner`: a process runs each program."""

from __future__ import annotations

import os
import subprocess
import tempfile
import weakref
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import safe_open
from safetensors.torch import save_file

# Of a number among the outputs, in the metadata.
_NUMBERS: Final = {"bool": bool, "double": float, "int": int}


class RunnerRuntime:
    """The runtime with the kernels and delegates that a runner links.

    Args:
        runner: path of the executable.
        name: of the runtime in tables.
        flags: precede all arguments.
    """

    def __init__(
        self, runner: str | Path, *, name: str = "executorch runner", flags: Sequence[str] = ()
    ) -> None:
        self.runner = Path(runner)
        self.name = name
        self._flags = tuple(flags)

    @property
    def backends(self) -> Collection[str]:
        """Ids of the delegates that are linked."""
        return sorted(self.run(["--backends"]).split())

    def load(self, pte: str, ptd: str | None, shares_state: bool) -> RunnerProgram:
        """Starts a process that maps a program, and loads its methods.

        Raises:
            RuntimeError: the runtime rejects the program.
        """
        return RunnerProgram([str(self.runner), *self._flags], pte, ptd)

    def run(self, arguments: Sequence[str]) -> str:
        """Runs the runner to its end, and returns what it prints.

        Raises:
            RuntimeError: it fails.
        """
        command = [str(self.runner), *self._flags, *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return done.stdout


class RunnerProgram:
    """A program in a separate process, which keeps its state."""

    def __init__(self, command: Sequence[str], pte: str, ptd: str | None) -> None:
        # Removed with the process, by the finalizer.
        folder = tempfile.TemporaryDirectory(prefix="executorch-runner-")
        self._files = [Path(folder.name, name) for name in ("inputs.safetensors", "outputs.safetensors")]
        self._log = Path(folder.name, "log.txt")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, f"--program={pte}", *([f"--data={ptd}"] if ptd else []), "--serve", "--poison"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        weakref.finalize(self, _end, self._process, folder)
        if self._answer() != "ready":
            raise RuntimeError(self._failure())

    def run(self, method: str, inputs: Sequence[Any]) -> Sequence[Any]:
        """Runs a method.

        Raises:
            RuntimeError: the runtime rejects the inputs, or an instruction fails.
        """
        tensors = {
            # A copy: a file does not have one tensor under two names.
            str(position): (value if isinstance(value, torch.Tensor) else _number(value)).contiguous().clone()
            for position, value in enumerate(inputs)
            if isinstance(value, torch.Tensor | bool | int | float)
        }
        save_file(tensors, self._files[0])
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\t".join([method, *map(str, self._files)]) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer is missing
        answer = self._answer()
        if answer != "ok":
            raise RuntimeError(answer.removeprefix("error ") or self._failure())
        with safe_open(self._files[1], "pt") as file:
            metadata = file.metadata()
            # Copies: tensors of the file change when the next call writes it.
            found = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - not a dict
        for name, value in found.items():
            if name.startswith("written."):
                inputs[int(name.removeprefix("written."))].copy_(value)
        return [_output(str(position), found, metadata) for position in range(int(metadata["outputs"]))]

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def _failure(self) -> str:
        code = self._process.wait()
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return "; ".join(lines) or f"the runner ends with code {code}"


def _number(value: bool | int | float) -> torch.Tensor:
    """Returns a tensor without dimensions, of the dtype that the runner expects."""
    kinds = {bool: torch.bool, int: torch.int64, float: torch.float64}
    return torch.tensor(value, dtype=kinds[type(value)])


def _output(position: str, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> Any:
    if position in tensors:
        kind = metadata.get(f"number.{position}")
        return _NUMBERS[kind](tensors[position].item()) if kind else tensors[position]
    return metadata.get(f"text.{position}")


def _end(process: subprocess.Popen[str], folder: tempfile.TemporaryDirectory[str]) -> None:
    process.kill()
    process.communicate()
    folder.cleanup()


# In the runfiles of a test, the runner is below the same root as this file.
RUNTIME: Final = RunnerRuntime(
    os.environ.get("EXECUTORCH_RUNNER") or Path(__file__).parents[2] / "runtime" / "runner"
)
