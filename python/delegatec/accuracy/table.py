# SPDX-License-Identifier: Apache-2.0
"""The accuracy of a program as text and JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import Final

from delegatec.accuracy.evaluation import Accuracy

# Samples in the table; JSON has all of them.
_MOST: Final = 10


def format_accuracy(accuracy: Accuracy) -> str:
    """Returns a table of the metric, its limits, and the samples that differ, with a final newline."""
    limits = accuracy.limits
    rows = [("program", _figure(accuracy.value), _limit("at least", limits.floor))]
    if accuracy.baseline is not None and accuracy.loss is not None:
        rows.append(("baseline", _figure(accuracy.baseline), ""))
        rows.append(("loss", _figure(accuracy.loss), _limit("at most", limits.maximum_loss)))
    figures = f"{accuracy.metric} over {accuracy.samples} samples, executor: {accuracy.executor}"
    text = f"method {accuracy.method}: {figures}\n{_table(rows)}"
    if not accuracy.differences:
        return text
    worse = sum(each.program < each.baseline for each in accuracy.differences)
    better = len(accuracy.differences) - worse
    shown = accuracy.differences[:_MOST]
    listed = [
        ("sample", "label", "program", "baseline"),
        *((str(each.sample), each.label, f"{each.program:g}", f"{each.baseline:g}") for each in shown),
    ]
    count = f"samples worse than with the baseline: {worse} of {accuracy.samples}; better: {better}"
    more = "  ...\n" if len(shown) < len(accuracy.differences) else ""
    return f"{text}{count}\n{_table(listed)}{more}"


def accuracy_json(accuracy: Accuracy) -> str:
    """Returns the accuracy as JSON, with all samples that differ."""
    return json.dumps({**dataclasses.asdict(accuracy), "loss": accuracy.loss}, indent=1) + "\n"


def _figure(value: float) -> str:
    return f"{value:.4f}"


def _limit(words: str, value: float | None) -> str:
    return "" if value is None else f"{words} {_figure(value)}"


def _table(rows: Iterable[Sequence[str]]) -> str:
    columns = [*zip(*rows, strict=True)]
    widths = [max(map(len, column)) for column in columns]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in zip(*columns, strict=True)
    )
    return "".join(f"  {line}".rstrip() + "\n" for line in lines)
