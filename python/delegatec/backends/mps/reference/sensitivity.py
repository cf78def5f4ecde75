# SPDX-License-Identifier: Apache-2.0
"""On which unspecified behaviours of MPSGraph the results of a blob rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Final

import torch

from delegatec.backends.mps.blob import Blob
from delegatec.backends.mps.reference.executor import MpsReferenceExecutor
from delegatec.backends.mps.reference.unspecified import DEFAULT, STRICT, Unspecified, choices_of
from delegatec.diagnostics import DelegatecError

# What is out of range is not refused, as a graph may drop it later on.
_BASE: Final = replace(DEFAULT, reads="zero", writes="skip")


def rests_on(blob: Blob, inputs: Sequence[torch.Tensor]) -> list[str]:
    """The behaviours, by their names in `Unspecified`, of which another choice gives other results.

    A behaviour that may occur without a consequence, such as a look-up out of range that a mask drops, is not
    among them. For other inputs there can be others.

    Args:
        blob: the blob.
        inputs: as for a run.

    Raises:
        DelegatecError: DC408 if the runtime cannot run the blob.
    """
    if not _is_refused(blob, inputs, STRICT):
        return []
    found = []
    for field in fields(Unspecified):
        if not _is_refused(blob, inputs, _with(field.name, "refuse")):
            continue
        first, *others = [
            MpsReferenceExecutor(blob, _with(field.name, choice))(inputs)
            for choice in choices_of(field.name)
            if choice != "refuse"
        ]
        # A behaviour with one choice cannot be shown to make no difference.
        if not others or not all(_equal(first, other) for other in others):
            found.append(field.name)
    return found


def _with(behaviour: str, choice: str) -> Unspecified:
    change: dict[str, Any] = {behaviour: choice}
    return replace(_BASE, **change)


def _is_refused(blob: Blob, inputs: Sequence[torch.Tensor], choices: Unspecified) -> bool:
    try:
        MpsReferenceExecutor(blob, choices)(inputs)
    except DelegatecError as error:
        if [item.code for item in error.diagnostics] != ["DC440"]:
            raise
        return True
    return False


def _equal(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    return all(
        torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num())
        for a, b in zip(one, other, strict=True)
    )
