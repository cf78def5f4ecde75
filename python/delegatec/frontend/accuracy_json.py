# SPDX-License-Identifier: Apache-2.0
"""The error of a quantized model, as a member of its archive."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence

from delegatec.frontend.pt2.fields import fail, integer, items, number, parsed, record, text
from delegatec.samples.accuracy import OutputAccuracy

_FIELDS = frozenset(field.name for field in dataclasses.fields(OutputAccuracy))


def accuracy_json(accuracy: Sequence[OutputAccuracy]) -> bytes:
    """Returns the error of each output as JSON."""
    rows = [dataclasses.asdict(each) for each in accuracy]
    return json.dumps({"outputs": rows}, allow_nan=False, separators=(",", ":")).encode()


def read_accuracy(content: memoryview, what: str) -> tuple[OutputAccuracy, ...]:
    """Reads the result of `accuracy_json`; raises MalformedError for another content."""
    rows = items(parsed(content, what).get("outputs"), what)
    return tuple(_row(record(row, f"a row of {what}"), what) for row in rows)


def _row(row: dict[str, object], what: str) -> OutputAccuracy:
    if row.keys() != _FIELDS:
        fail(f"a row of {what} has missing or unknown fields")
    ratio, largest = number(row["snr_db"], what), number(row["max_error"], what)
    if not (math.isfinite(ratio) and math.isfinite(largest)):
        fail(f"a value of {what} is not finite")
    return OutputAccuracy(
        text(row["method"], what),
        text(row["output"], what),
        ratio,
        largest,
        integer(row["calls"], what, 0),
        text(row["samples"], what),
    )
