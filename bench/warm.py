# SPDX-License-Identifier: Apache-2.0
"""CPU seconds of requests to a warm worker, and of their stages, as a table.

    bazel run //bench:warm -- --rounds=3

A worker exports MobileNetV2 and BERT-base several times, as a build with several models would: the second
export starts a process that has imported the libraries. Then it lowers BERT-base for MPS with different
outputs. The total is the CPU time of the worker and its children, from request to answer; the minimum of the
rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from delegatec.cli.worker_protocol import read_message

_SOURCE: Final = """
import models

def mobilenet_v2():
    return models.mobilenet_v2()

def bert_base():
    return models.bert_base()
"""
_TICKS: Final = os.sysconf("SC_CLK_TCK")
# The last ones are those of the rules.
_OUTPUTS: Final = (("pte",), ("pte", "manifest", "debug"), ("pte", "manifest", "debug", "ir", "reasons"))
Row = dict[str, float]


class Worker:
    """A worker process, and requests like Bazel's.

    Args:
        folder: its working directory.
    """

    def __init__(self, folder: Path) -> None:
        here = Path(__file__).parent
        path = ":".join([str(here), *(entry for entry in sys.path if entry)])
        environment = dict(os.environ, PYTHONPATH=path, PYTHONHASHSEED="0", OMP_NUM_THREADS="1")
        self._stages = folder / "stages.json"
        self._process = subprocess.Popen(
            [sys.executable, "-B", str(here / "warm_worker.py"), str(self._stages)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env=environment,
        )

    def start(self) -> None:
        """Waits until the process has imported torch and lowered a small model."""
        self.request("inspect", "--help", measured=False)

    def request(self, *arguments: str, measured: bool = True) -> Row:
        """Sends a request; returns the CPU seconds of its stages, and of all."""
        assert self._process.stdin is not None and self._process.stdout is not None
        before = self._seconds()
        fields = [b"\x0a" + _message(text.encode()) for text in arguments]
        # The worker keeps libraries while digests are the same; here, they are in the environment.
        fields.append(b"\x12" + _message(b"\x0a" + _message(b"libraries") + b"\x12" + _message(b"digest")))
        self._process.stdin.write(_message(b"".join(fields)))
        self._process.stdin.flush()
        read_message(self._process.stdout)
        total = self._seconds() - before
        if not measured:
            return {}
        stages: Row = json.loads(self._stages.read_text())
        self._stages.unlink()
        return {**stages, "fork, exit, outputs": total - sum(stages.values()), "all": total}

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _seconds(self) -> float:
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return sum(map(_seconds, [self._process.pid, *map(int, children)]))


def _seconds(process: int) -> float:
    """Returns the CPU seconds of a process and its children that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


def _message(content: bytes) -> bytes:
    """Returns bytes after their length, as protobuf writes it."""
    length, rest = bytearray(), len(content)
    while rest >= 0x80:
        length.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*length, rest]) + content


def requests(rounds: int) -> dict[str, list[Row]]:
    """Returns the measurements of each request."""
    found: dict[str, list[Row]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "entries.py").write_text(_SOURCE)
        worker = Worker(folder)
        worker.start()
        for name in ("mobilenet_v2", "bert_base"):
            # Other parameters than those of the target's own files: other libraries.
            flags = ("--source=entries.py", f"--entry=entries:{name}", f"--import-path={name}")
            for turn in ("first", "second", *["later"] * rounds):
                row = worker.request("export", *flags, f"--program={name}.pt2")
                found.setdefault(f"export {name}, {turn}", []).append(row)
        for _ in range(rounds):
            for outputs in _OUTPUTS:
                flags = tuple(f"--{output}=out.{output}" for output in outputs)
                row = worker.request("lower", "--program=bert_base.pt2", "--backend=mps", *flags)
                found.setdefault(f"lower to {', '.join(outputs)}", []).append(row)
            flags = tuple(f"--{kind}=out.{kind}" for kind in ("pte", "manifest", "debug", "report"))
            row = worker.request("report", *flags)
            found.setdefault("report", []).append(row)
        worker.close()
    return found


def table(rows: dict[str, Row]) -> str:
    """Returns measurements as a table: a column per request."""
    stages = sorted({stage for row in rows.values() for stage in row} - {"all"})
    lines = [f"| stage | {' | '.join(rows)} |", f"| --- |{' ---: |' * len(rows)}"]
    for stage in [*stages, "all"]:
        cells = (f"{row[stage]:.2f}" if stage in row else "" for row in rows.values())
        lines.append(f"| {stage} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    found = requests(parser.parse_args().rounds)
    print(table({name: min(rows, key=lambda row: row["all"]) for name, rows in found.items()}))


if __name__ == "__main__":
    main()
