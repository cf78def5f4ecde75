# SPDX-License-Identifier: Apache-2.0
"""Reads many damaged files, and writes each failure, minimized, with its traceback.

bazel run //tests/damage:campaign -- --count=100000 --seed=0 --output=/tmp/failures
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.damage.kinds import Kind, prepared
from tests.damage.search import Search

# A crash ends the search of a chunk.
_CHUNK: Final = 250


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="number of damaged files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", default="", help="only kinds whose name contains this")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no chunk after this time")
    parser.add_argument("--output", type=Path, default=Path("failures"), help="directory of failures")
    arguments = parser.parse_args()
    output = arguments.output.absolute()
    output.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + arguments.seconds
    with tempfile.TemporaryDirectory() as folder:
        kinds = [kind for kind in prepared(Path(folder)) if arguments.kind in kind.name]
        totals: dict[str, dict[str, int]] = {kind.name: {} for kind in kinds}
        each = arguments.count // len(kinds)
        chunks = [(start, kind) for start in range(0, each, _CHUNK) for kind in kinds]
        for start, kind in chunks:
            if time.monotonic() > end:
                break
            for outcome, count in _chunk(
                kind, start, min(start + _CHUNK, each), arguments.seed, output
            ).items():
                totals[kind.name][outcome] = totals[kind.name].get(outcome, 0) + count
            print(f"seed {arguments.seed}, {kind.name}, {start}: {totals[kind.name]}", flush=True)
    for name, counts in totals.items():
        print(f"{name:24} {sum(counts.values()):7} {counts}", flush=True)
    print("files:", sum(sum(counts.values()) for counts in totals.values()))


def _chunk(kind: Kind, start: int, end: int, seed: int, output: Path) -> dict[str, int]:
    """Searches some copies in a child process; a copy that crashes it is skipped the next time."""
    skipped: set[int] = set()
    while True:
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            _search(kind, start, end, seed, output, skipped, writing)
            os._exit(0)
        os.close(writing)
        with open(reading) as pipe:
            lines = pipe.read().splitlines()
        _, status = os.waitpid(child, 0)
        if status == 0:
            counts: dict[str, int] = json.loads(lines[-1])
            return counts | ({"crashed": len(skipped)} if skipped else {})
        number = int(lines[-1])
        skipped.add(number)
        (output / f"{kind.name.replace(' ', '_')}_{start}_{number}_crash.txt").write_text(
            f"status {status}, seed {seed}\n"
        )
        print(f"CRASH {kind.name}, seed {seed}, chunk {start}, copy {number}: status {status}", flush=True)


def _search(kind: Kind, start: int, end: int, seed: int, output: Path, skipped: set[int], pipe: int) -> None:
    search = Search(kind, f"{seed} {start}")
    with os.fdopen(pipe, "w") as told:
        for number in search.run(range(start, end), skipped):
            told.write(f"{number}\n")
            told.flush()
        counts = {**search.counts, "failed": sum(search.failed.values())}
        told.write(json.dumps(counts) + "\n")
    for what, failure in search.failures.items():
        name = "".join(c if c.isalnum() else "_" for c in f"{kind.name}_{what}")[:120]
        suffix = Path(kind.file).suffix
        if (output / f"{name}.txt").exists():
            continue
        (output / f"{name}{suffix}").write_bytes(search.damaged(failure.edits))
        reader = kind.readers[failure.reader]
        text = f"{what}\n{kind.name}, reader {reader}\nedits {failure.edits}\n{failure.trace}"
        (output / f"{name}.txt").write_text(text.encode(errors="backslashreplace").decode())
        print(f"FAILURE {kind.name}: {what}", flush=True)


if __name__ == "__main__":
    main()
