# SPDX-License-Identifier: Apache-2.0
"""Named data of all delegates of a program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from delegatec.delegation import NamedData
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.program.content import equal_bytes
from delegatec.program.emitted import EmittedMethod
from delegatec.program.external import ExternalWeights


def merge_named_data(methods: Iterable[EmittedMethod], external: ExternalWeights) -> dict[str, NamedData]:
    """Merges the named data of a program.

    Args:
        methods: the methods with delegates.
        external: the weights in a `.ptd`, which share the runtime's namespace.

    Returns:
        Key -> data that the `.ptd` lacks, in order of first use, with the largest alignment requested.

    Raises:
        DelegatecError: DC361, one diagnostic for each ambiguous key.
    """
    merged: dict[str, NamedData] = {}
    problems: dict[str, Diagnostic] = {}
    for method in methods:
        for delegate in method.delegates:
            for key, item in delegate.named_data.items():
                if external.reads(key, item.data):
                    continue
                other = merged.setdefault(key, item)
                merged[key] = replace(other, alignment=max(other.alignment, item.alignment))
                if key in external.names:
                    problems[key] = _conflict(key, "is another weight of the .ptd", delegate.backend_id)
                elif not equal_bytes(other.data, item.data):
                    problems[key] = _conflict(key, "has different data elsewhere", delegate.backend_id)
    if problems:
        raise DelegatecError(problems.values())
    return merged


def _conflict(key: str, message: str, backend_id: str) -> Diagnostic:
    return Diagnostic(
        "DC361",
        f"key {key!r} of named data for backend {backend_id} {message}",
        expected="one content per key in a program",
        help="fix the backend: derive the key from a hash of the data",
    )
