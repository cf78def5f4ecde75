# SPDX-License-Identifier: Apache-2.0
"""Measures all architectures and writes docs/architectures.md: `bazel run //tests/architectures:table`."""

from __future__ import annotations

import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from delegatec.diagnostics import DelegatecError
from tests.architectures.case import Case
from tests.architectures.cases import CASES
from tests.architectures.measure import Measurement, measure, refusal
from tests.architectures.page import render


def _row(number: int) -> Measurement | str | None:
    case = CASES[number]
    try:
        return refusal(case) if case.refusal else measure(case)
    except DelegatecError as error:
        return str(error)


def main(workers: int) -> int:
    """Writes the page, unless a case has an unexpected outcome, which it reports.

    Args:
        workers: how many processes measure.
    """
    rows: dict[Case, Measurement] = {}
    wrong = 0
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=workers, mp_context=context) as pool:
        for case, row in zip(CASES, pool.map(_row, range(len(CASES))), strict=True):
            print(case.name, row, flush=True)
            rows[case] = row
            if isinstance(row, Measurement):
                within = row.portable.relative <= case.tolerance and row.mps.relative <= case.mps_tolerance
            else:
                within = case.refusal is not None and row == case.refusal[0]
            if not within:
                wrong += 1
                print(f"  WRONG: {row}", file=sys.stderr, flush=True)
    if not wrong:
        folder = Path(os.environ["BUILD_WORKSPACE_DIRECTORY"]) / "docs"
        (folder / "architectures.md").write_text(render(rows), encoding="utf-8")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else os.cpu_count() or 1))
