# SPDX-License-Identifier: Apache-2.0
"""Cost of a workspace with many models for Bazel's server, with one or several trees of the rules.

    bazel run //bench:analysis -- --models=1000 --rounds=3
    bazel run //bench:analysis -- --rules=../before --rules=.

Nothing is built. Each tree has its own server, and the rounds of the trees alternate, so that the figures
can be compared. A figure is the minimum of its rounds: the CPU time of the server apart from Java's compiler,
which other programs on the machine affect little, or its heap after a garbage collection.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from monorepo import Monorepo, add_flags, from_flags, source_root

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_ALL: Final = "//models/..."
_HEAP: Final = "heap, MB"


@dataclass
class Server:
    """The Bazel server of one tree of the rules.

    Attributes:
        workspace: root of the workspace.
        root: directory of all its outputs.
        startup: startup options of Bazel.
        flags: options of its commands.
        figures: step -> the figure of each round.
    """

    workspace: Path
    root: Path
    startup: Sequence[str]
    flags: Sequence[str]
    figures: dict[str, list[float]] = field(default_factory=dict)

    def run(self, command: str, *arguments: str) -> str:
        """Returns the output of a command.

        Raises:
            SystemExit: it fails.
        """
        flags = () if command == "shutdown" else self.flags
        done = subprocess.run(
            [*self._bazel(), command, *flags, *arguments],
            cwd=self.workspace,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"bazel {command} failed\n{done.stderr}")
        return done.stdout

    def _bazel(self) -> list[str]:
        # Compiler threads that ended could not be subtracted.
        threads = "--host_jvm_args=-XX:-UseDynamicNumberOfCompilerThreads"
        return ["bazel", f"--output_user_root={self.root}", threads, *self.startup]

    def measure(self, step: str, command: str, *arguments: str) -> str:
        """Adds the CPU seconds of a command to the figures, and returns its output."""
        process = Path("/proc", self.run("info", "server_pid").strip())
        before = _cpu_seconds(process)
        output = self.run(command, *arguments)
        self.figures.setdefault(step, []).append(_cpu_seconds(process) - before)
        return output

    def round(self) -> None:
        """Measures every step once, in a new server."""
        self.run("shutdown")
        first = self.workspace / "models" / "p00000"
        # Fetches what is missing, loads the rules, and analyzes the compiler.
        self.run("build", "--nobuild", f"//models/{first.name}/...")
        self.measure("load every package", "query", _ALL)
        self.measure("analyze every target", "build", "--nobuild", _ALL)
        self.measure("nothing changed", "build", "--nobuild", _ALL)
        build = first / "BUILD.bazel"
        text = build.read_text()
        build.write_text(text.replace("    entry =", "    seed = 1,\n    entry =", 1))
        try:
            self.measure("one BUILD file edited", "build", "--nobuild", _ALL)
        finally:
            build.write_text(text)
        heap = self.run("info", "used-heap-size-after-gc").strip()
        self.figures.setdefault(_HEAP, []).append(float(heap.removesuffix("MB")))
        inspections = self.measure("query by kind", "query", f"kind(program_inspect, {_ALL})")
        patterns = self.workspace / "inspections"
        patterns.write_text(inspections)
        self.measure("analyze every .inspect", "build", "--nobuild", f"--target_pattern_file={patterns}")
        self.run("shutdown")


def _cpu_seconds(process: Path) -> float:
    """Returns the CPU time of the server without the compilation of Java.

    Java's compiler threads spend more than Bazel in the first minute, and hardly anything later.
    """
    total = _ticks(process / "stat")
    compilers = [
        _ticks(task / "stat")
        for task in (process / "task").iterdir()
        if (task / "comm").read_text().startswith(("C1 Compiler", "C2 Compiler"))
    ]
    return (total - sum(compilers)) / _TICKS


def _ticks(stat: Path) -> int:
    fields = stat.read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def table(servers: Sequence[Server], names: Sequence[str]) -> str:
    """Returns the figures as Markdown: a row for each step, with the ratio of the first tree to the last."""
    ratio = len(servers) > 1
    heads = ["step", *names, *(["ratio"] if ratio else [])]
    lines = ["| " + " | ".join(heads) + " |", "| --- |" + " ---: |" * (len(heads) - 1)]
    for step in servers[0].figures:
        least = [min(server.figures[step]) for server in servers]
        cells = [f"{value:.0f}" if step == _HEAP else f"{value:.2f} s" for value in least]
        cells += [f"{least[0] / least[-1]:.2f}"] if ratio and least[-1] else [""] * ratio
        lines.append("| " + " | ".join([step, *cells]) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_flags(parser)
    parser.add_argument("--rules", type=Path, action="append", help="root of a tree of the rules; repeatable")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--startup", action="append", default=[], help="startup option of Bazel; repeatable")
    parser.add_argument("--flag", action="append", default=[], help="option of Bazel's commands; repeatable")
    parser.add_argument("--json", type=Path, help="also writes every figure of every round")
    flags = parser.parse_args()
    root = source_root()
    trees = [Path(root, tree).resolve() for tree in flags.rules or [root]]
    monorepo: Monorepo = from_flags(flags)
    with tempfile.TemporaryDirectory() as folder:
        servers = []
        for index, tree in enumerate(trees):
            home = Path(folder, str(index))
            monorepo.write(home / "workspace", tree)
            servers.append(Server(home / "workspace", home / "output", flags.startup, flags.flag))
        for _ in range(flags.rounds):
            for server in servers:
                server.round()
        print(f"{monorepo.models} models, {len(monorepo.backends)} backends, {monorepo.targets} targets\n")
        print(table(servers, [tree.name for tree in trees]))
        if flags.json:
            figures = {str(tree): server.figures for tree, server in zip(trees, servers, strict=True)}
            flags.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
