# SPDX-License-Identifier: Apache-2.0
"""Runs many generated programs, and writes each failure, minimized, as a Python file.

bazel run //tests/generated:campaign -- --count=20000 --seed=0 --output=/tmp/failures
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from functools import partial
from pathlib import Path

import torch

from tests.generated.generate import generate
from tests.generated.outcomes import FAULTS, NO_EXPORT, NOT_QUANTIZED, REFUSED, RIGHT, Outcome
from tests.generated.processes import results
from tests.generated.profiles import PROFILES
from tests.generated.profiles import QUANTIZED as QUANTIZED_PROFILES
from tests.generated.report import failure_file
from tests.generated.shrink import shrunk
from tests.generated.targets import LOWERINGS, QUANTIZED, TARGETS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20000, help="number of programs")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first program")
    parser.add_argument("--output", type=Path, default=Path("failures"), help="directory of failures")
    parser.add_argument("--targets", nargs="*", choices=LOWERINGS, help="backends, precisions, quantizations")
    parser.add_argument("--profile", choices=PROFILES, default="any", help="what programs are drawn from")
    parser.add_argument("--no-shrink", action="store_true", help="write failures as they were generated")
    args = parser.parse_args()
    # A process with threads forks children that wait for them.
    torch.set_num_threads(1)
    targets = args.targets or (tuple(QUANTIZED) if args.profile in QUANTIZED_PROFILES else TARGETS)
    drawn = partial(generate, profile=PROFILES[args.profile])
    args.output.mkdir(parents=True, exist_ok=True)
    kinds: Counter[tuple[str, str]] = Counter()
    reasons: Counter[str] = Counter()
    delegated = 0
    started = time.monotonic()
    for number, (seed, found) in enumerate(
        results(range(args.seed, args.seed + args.count), drawn, targets), 1
    ):
        kinds.update((outcome.target, outcome.kind) for outcome in found)
        delegated += any(outcome.delegates for outcome in found)
        for outcome in found:
            if outcome.kind in (REFUSED, NO_EXPORT, NOT_QUANTIZED):
                reasons[_general(outcome)] += 1
            elif outcome.kind in FAULTS:
                print(f"seed {seed}: {outcome.target}: {outcome.kind}: {outcome.text}", flush=True)
                is_first = outcome == next(each for each in found if each.kind in FAULTS)
                is_small = is_first and not args.no_shrink
                program = shrunk(drawn(seed), outcome) if is_small else drawn(seed)
                path = args.output / f"{outcome.target.replace(' ', '_')}_{seed}.py"
                path.write_text(failure_file(program, outcome, seed))
        if number % 50 == 0 or number == args.count:
            seconds = time.monotonic() - started
            print(f"{number} programs, {seconds:.0f} s, {delegated} with a delegate", flush=True)
            for (target, kind), count in sorted(kinds.items()):
                print(f"  {target:44} {kind:13} {count}", flush=True)
    print(
        f"seeds {args.seed} to {args.seed + args.count - 1}; right: {sum(kinds[t, RIGHT] for t in targets)}"
    )
    for reason, count in reasons.most_common(60):
        print(f"  {count:6} {reason}")


def _general(outcome: Outcome) -> str:
    """Returns a reason without its particular names and digits."""
    first = outcome.text.partition("; ")[0]
    return f"{outcome.kind}: {re.sub(r'[0-9]+', '#', first)[:160]}".replace("\n", " ")


if __name__ == "__main__":
    main()
