# SPDX-License-Identifier: Apache-2.0
"""Runs an action outside of Bazel, with links to its declared inputs, and lists the files that it opens.

strace sees each file that the action's processes open or execute, shared libraries included. What they learn
without opening a file is not traced: the names in a directory, and whether a file exists.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# openat(AT_FDCWD</folder>, "name", O_RDONLY) = 3</path without links>, execve("name", [...]) = 0
_OPENED: Final = re.compile(r'open(?:at2?)?\(.*\) = \d+<(/.*)>|execve\("([^"]+)", .*\) = 0')
# What follows it is in a parameter file.
_MODULE: Final = "delegatec"


@dataclass(frozen=True)
class Action:
    """An action, as the rule `traced_actions` describes it.

    Attributes:
        target: the name of its target.
        arguments: of the command, with those in a parameter file.
        environment: its variables.
        inputs: path of each input in the execution root -> the real path of the file or directory.
        outputs: their paths in the execution root.
    """

    target: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    inputs: Mapping[str, Path]
    outputs: Sequence[str]

    def command(self, root: Path) -> list[str]:
        """Returns the command for an execution root, where its parameter file is written."""
        start = self.arguments.index(_MODULE) + 1
        (root / "parameters").write_text("".join(f"{argument}\n" for argument in self.arguments[start:]))
        return [*self.arguments[:start], "@parameters"]

    def lay_out(self, root: Path) -> None:
        """Links the inputs below an execution root and makes the directories of the outputs."""
        for path, real in self.inputs.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).symlink_to(real)
        for path in self.outputs:
            (root / path).parent.mkdir(parents=True, exist_ok=True)

    def declares(self, path: Path) -> bool:
        """Whether a real path is an input, or is in a directory that is one."""
        real = set(self.inputs.values())
        return path in real or not real.isdisjoint(path.parents)


def run_traced(action: Action, root: Path, logs: Path, strace: str) -> subprocess.CompletedProcess[str]:
    """Runs an action in a new process, under strace, in an empty directory.

    Args:
        action: the action.
        root: an empty directory, which becomes its execution root.
        logs: an empty directory for strace's logs, one for each thread.
        strace: the path of strace.
    """
    action.lay_out(root)
    trace = [strace, "-ff", "-y", "--seccomp-bpf", "-e", "trace=open,openat,openat2,execve"]
    return subprocess.run(
        [*trace, "-o", str(logs / "log"), *action.command(root)],
        cwd=root,
        env=action.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def opened_files(logs: Path, root: Path) -> set[Path]:
    """Returns the real paths of the regular files that processes opened or executed.

    Temporary files, which no longer exist, are not among them, nor are pseudo-files of the kernel.

    Args:
        logs: the directory of strace's logs.
        root: the processes' directory.
    """
    lines = (line for log in logs.iterdir() for line in log.read_text(errors="surrogateescape").splitlines())
    found = {found[1] or found[2] for line in lines if (found := _OPENED.match(line))}
    real = {Path(os.path.realpath(root / path)) for path in found}
    return {path for path in real if path.parts[1] not in {"dev", "proc"} and path.is_file()}
