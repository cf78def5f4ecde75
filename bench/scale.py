# SPDX-License-Identifier: Apache-2.0
"""CPU time of large programs, as tables.

    bazel run //bench:scale
    bazel run //bench:scale -- --case=outputs --size=1000 --size=8000
    bazel run //bench:scale -- --signatures

The second table has exponents of growth for programs that are large in different respects
(`scale_cases.py`), the last one the cost of distinct call signatures (`scale_signatures.py`). The program of
the first one, lowered for MPS, is a chain in which MPS does not support every 50th operator, and every tenth
has a separate weight: 1,000 nodes become 20 delegates, 100,000 become 2,000.
"""

from __future__ import annotations

import argparse
import io
from typing import Final

import scale_cases
import scale_growth
import scale_signatures
import torch
from stopwatch import Stopwatch

from delegatec import to_backend
from delegatec.backends import builtin_backends
from delegatec.edge.convert import SIMPLIFY
from delegatec.edge.passes.pass_manager import run_passes
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing.synthetic import Synthetic
from delegatec.program import emit, write_program

aten = torch.ops.aten

SIZES: Final = (1_000, 10_000, 100_000)


def chain(count: int) -> EdgeProgram:
    """Returns a program of `count` operators."""
    made = Synthetic()
    weights = iter([made.constant(float(index)) for index in range(count // 10)])
    x = y = made.input()
    for index in range(count):
        if index % 50 == 49:
            y = made.call(aten.cumsum.default, y, 0)
        elif index % 10 == 5:
            y = made.call(aten.mul.Tensor, y, next(weights))
        else:
            y = made.call(aten.add.Tensor, y, x)
    return made.program(y)


def stages(count: int) -> dict[str, float]:
    """Returns the CPU seconds of each stage."""
    program = chain(count)
    backend = builtin_backends().resolve("mps")
    partitioner = backend.partitioner(backend.compile_specs({}))
    watch = Stopwatch()
    with watch.stage("passes"):
        run_passes(program, SIMPLIFY)
    with watch.stage("partition"):
        partitioner.partition(program)
    with watch.stage("to_backend"):
        to_backend(program, partitioner)
    with watch.stage("emit and write"):
        write_program(emit({"forward": program}), io.BytesIO())
    return watch.seconds


def chains() -> str:
    """Returns the table of the chain."""
    stages(SIZES[0] // 10)  # warm-up
    measured = {count: stages(count) for count in SIZES}
    names = list(measured[SIZES[0]])
    lines = [f"| nodes | {' | '.join(names)} | all, microseconds per node |"]
    lines.append(f"| ---: |{' ---: |' * (len(names) + 1)}")
    for count, seconds in measured.items():
        # to_backend includes the partitioner
        total = sum(seconds.values()) - seconds["partition"]
        cells = [f"{seconds[name]:.2f}" for name in names]
        lines.append(f"| {count:,} | {' | '.join(cells)} | {1e6 * total / count:.0f} |")
    return "\n".join(lines)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", action="append", choices=scale_cases.CASES, help="all of them by default")
    parser.add_argument("--backend", action="append", help="portable and mps by default")
    parser.add_argument("--size", action="append", type=int, help="1,000 and 4,000 by default")
    parser.add_argument(
        "--signatures", action="store_true", help="print the cost of distinct signatures only"
    )
    arguments = parser.parse_args()
    if arguments.signatures:
        print(scale_signatures.table())
        return
    if not arguments.case:
        print(chains(), end="\n\n")
    sizes = arguments.size or list(scale_growth.SIZES)
    names = arguments.case or list(scale_cases.CASES)
    print(scale_growth.table(names, arguments.backend or ["portable", "mps"], sizes))


if __name__ == "__main__":
    main()
