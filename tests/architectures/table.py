# SPDX-License-Identifier: Apache-2.0
"""Measures all architectures and writes docs/architectures.md: `bazel run //tests/architectures:table`.

`-- --xnnpack` measures the XNNPACK programs alone, `-- --mlx` those for MLX; other columns are kept.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

from delegatec.diagnostics import DelegatecError
from tests.architectures.case import Case
from tests.architectures.cases import CASES
from tests.architectures.measure import (
    Measurement,
    Whole,
    measure,
    measure_fp16,
    measure_mlx,
    measure_xnnpack,
    refusal,
)
from tests.architectures.page import Cells, cells, fp16_cells, mlx_cells, parse, render, xnnpack_cells

# The cells that were measured, and their error; "" for nothing.
_Row = tuple[Cells, str]


def _xnnpack(number: int) -> _Row:
    case = CASES[number]
    if case.refusal:
        return {}, ""
    try:
        found, half = measure_xnnpack(case), measure_fp16(case)
    except DelegatecError as error:
        return {}, str(error)
    return xnnpack_cells(found) | fp16_cells(half), _excess(case, xnnpack=found)


def _mlx(number: int) -> _Row:
    case = CASES[number]
    if case.refusal:
        return {}, ""
    try:
        found = measure_mlx(case)
    except DelegatecError as error:
        return {}, str(error)
    return mlx_cells(found), _excess(case, mlx=found)


def _all(number: int) -> _Row:
    case = CASES[number]
    if case.refusal:
        code = refusal(case)
        return {}, "" if code == case.refusal[0] else f"the code is {code}"
    try:
        found, xnnpack, half = measure(case), measure_xnnpack(case), measure_fp16(case)
        mlx = measure_mlx(case)
    except DelegatecError as error:
        return {}, str(error)
    row = cells(found) | mlx_cells(mlx) | xnnpack_cells(xnnpack) | fp16_cells(half)
    return row, _excess(case, found, xnnpack, mlx)


def _excess(
    case: Case,
    found: Measurement | None = None,
    xnnpack: Whole | None = None,
    mlx: Whole | None = None,
) -> str:
    errors = []
    if found is not None:
        errors += [("portable", found.portable, case.tolerance), ("MPS", found.mps, case.mps_tolerance)]
    if xnnpack is not None:
        errors.append(("XNNPACK", xnnpack.error, case.tolerance))
    if mlx is not None:
        errors.append(("MLX", mlx.error, case.tolerance))
    return "; ".join(f"{name}: {error}" for name, error, tolerance in errors if error.relative > tolerance)


_ONLY: Final = {"xnnpack": _xnnpack, "mlx": _mlx}


def main(workers: int, page: Path, only: str) -> int:
    """Writes the page, unless a case has an unexpected outcome, which it reports.

    Args:
        workers: how many processes measure.
        page: the page.
        only: a key of `_ONLY`, of which other columns of the page are kept; "" for all columns.
    """
    kept = parse(page.read_text(encoding="utf-8")) if only else {}
    rows: dict[Case, Cells] = {}
    wrong = 0
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=workers, mp_context=context) as pool:
        measured = pool.map(_ONLY.get(only, _all), range(len(CASES)))
        for case, (row, problem) in zip(CASES, measured, strict=True):
            print(case.name, row, flush=True)
            rows[case] = {**kept.get(case.name, {}), **row}
            if problem:
                wrong += 1
                print(f"  WRONG: {problem}", file=sys.stderr, flush=True)
    if not wrong:
        page.write_text(render(rows), encoding="utf-8")
    return min(wrong, 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("workers", type=int, nargs="?", default=os.cpu_count() or 1)
    for name in _ONLY:
        parser.add_argument(
            f"--{name}",
            dest="only",
            action="store_const",
            const=name,
            default="",
            help=f"measure {name} alone",
        )
    options = parser.parse_args()
    folder = Path(os.environ["BUILD_WORKSPACE_DIRECTORY"]) / "docs"
    sys.exit(main(options.workers, folder / "architectures.md", options.only))
