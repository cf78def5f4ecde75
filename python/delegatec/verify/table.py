# SPDX-License-Identifier: Apache-2.0
"""The table of results that a test prints."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from delegatec.samples.compare import Comparison
from delegatec.verify.outputs import Call, OutputResult

_FIGURES: Final = ("max abs", "max rel", "cosine", "SNR dB")
_KINDS: Final[dict[str, Callable[[Call], str]]] = {
    "runs in": lambda call: call.executor,
    "compared with": lambda call: call.oracle,
}


def table(results: Sequence[OutputResult]) -> str:
    """Returns a row for the worst call of each output: in each executor, and against each oracle.

    Columns for these are there if there are several.
    """
    shown = {title: kind for title, kind in _KINDS.items() if len({kind(each.call) for each in results}) > 1}
    rows: list[tuple[str, ...]] = [("method", "output", "", *shown, "worst call", *_FIGURES, "")]
    for result in worst(results):
        output = f"{result.output} {result.path}".strip()
        targets = (kind(result.call) for kind in shown.values())
        figures = _figures(result.comparison)
        rows.append((result.method, output, result.kind, *targets, result.trial, *figures, result.verdict))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def worst(results: Sequence[OutputResult]) -> list[OutputResult]:
    """Returns for each output, in each executor and against each oracle, the call with the largest error."""
    found: dict[tuple[str, int, str, str], OutputResult] = {}
    for result in results:
        key = result.method, result.output, result.call.executor, result.call.oracle
        if key not in found or _badness(result) > _badness(found[key]):
            found[key] = result
    return list(found.values())


def _badness(result: OutputResult) -> tuple[bool, float]:
    return not result.passed, result.comparison.max_abs if result.comparison else math.inf


def _figures(c: Comparison | None) -> tuple[str, ...]:
    if c is None:
        return ("-",) * len(_FIGURES)
    return f"{c.max_abs:.3g}", f"{c.max_rel:.3g}", f"{c.cosine:.7f}", f"{c.snr_db:.1f}"
