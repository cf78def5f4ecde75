# SPDX-License-Identifier: Apache-2.0
"""On which unspecified behaviours of MPSGraph the results of a blob depend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import torch

from delegatec.backends.common.reference import unspecified
from delegatec.backends.mps.blob import Blob
from delegatec.backends.mps.reference.executor import MpsReferenceExecutor
from delegatec.backends.mps.reference.unspecified import DEFAULT

# What is out of range is not refused, as a graph may drop it later on.
_BASE: Final = replace(DEFAULT, reads="zero", writes="skip")


def depends_on(blob: Blob, inputs: Sequence[torch.Tensor]) -> list[str]:
    """The behaviours, by their names in `Unspecified`, of which another choice gives other results.

    Raises:
        DelegatecError: DC408 if the runtime cannot run the blob.
    """
    return unspecified.depends_on(lambda choices: MpsReferenceExecutor(blob, choices)(inputs), _BASE)
