# SPDX-License-Identifier: Apache-2.0
"""Profiles and benchmarks as JSON, which later ones can be compared with."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Final

from delegatec.profile.attribution import Profile
from delegatec.profile.benchmark import Benchmark
from delegatec.profile.ratio import Ratio
from delegatec.report.decoding import decoded

# Incremented when a field changes its meaning or is removed.
SCHEMA_VERSION: Final = 1
_KINDS: Final = {"benchmark": Benchmark, "profile": Profile}


def document_json(
    measured: Profile | Benchmark, baseline: Profile | Benchmark | None, ratio: Ratio | None
) -> str:
    """Returns what was measured as JSON, with a final newline: times in nanoseconds.

    Args:
        measured: of the program.
        baseline: of the baseline, if there is one.
        ratio: of the two.
    """
    kind = next(name for name, each in _KINDS.items() if isinstance(measured, each))
    document: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "kind": kind, **_fields(measured)}
    if baseline is not None and ratio is not None:
        document |= {"baseline": _fields(baseline), "ratio": dataclasses.asdict(ratio)}
    return json.dumps(document, indent=1) + "\n"


def read_document(text: str) -> Profile | Benchmark:
    """Reads the result of `document_json`, without its baseline.

    Raises:
        ValueError: the text has another form.
    """
    document = json.loads(text)
    # a list for those that are not hashable
    if not isinstance(document, dict) or document.get("kind") not in list(_KINDS):
        raise ValueError("it is neither a profile nor a benchmark")
    kind = _KINDS[document.pop("kind")]
    if (version := document.pop("schema_version", None)) != SCHEMA_VERSION:
        raise ValueError(f"it has schema version {version}, expected {SCHEMA_VERSION}")
    names = {field.name for field in dataclasses.fields(kind)}
    found = decoded(kind, {name: value for name, value in document.items() if name in names})
    assert isinstance(found, Profile | Benchmark)
    if not found.rounds or (isinstance(found, Benchmark) and not all(found.rounds)):
        raise ValueError(".rounds is empty")
    return found


def _fields(measured: Profile | Benchmark) -> dict[str, Any]:
    figures = measured.figures() if isinstance(measured, Benchmark) else {}
    return {**dataclasses.asdict(measured), **figures}
