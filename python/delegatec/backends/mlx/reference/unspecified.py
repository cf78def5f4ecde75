# SPDX-License-Identifier: Apache-2.0
"""Behavior that MLX does not specify, or that depends on the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from delegatec.backends.common.reference.unspecified import UnspecifiedBehavior


@dataclass(frozen=True)
class Unspecified(UnspecifiedBehavior):
    """A choice for each behavior. The defaults are those of MLX 0.31 on a CPU.

    Attributes:
        ties: the order of equal elements in an Argsort.
        masked_rows: attention of rows whose elements are all masked.
        reads: what an index beyond a dimension reads.
    """

    runtime: ClassVar = "MLX"

    ties: Literal["first", "last", "raise"] = "first"
    masked_rows: Literal["average", "nan", "raise"] = "average"
    reads: Literal["raise", "zero", "first"] = "raise"


DEFAULT: Final = Unspecified()
