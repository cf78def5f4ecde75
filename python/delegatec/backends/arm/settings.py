# SPDX-License-Identifier: Apache-2.0
"""Settings of the lowering to TOSA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from delegatec.backends.arm.specification import TosaSpecification

COMPLETE: Final = TosaSpecification.parse("TOSA-1.0+INT+FP")


@dataclass(frozen=True)
class Settings:
    """A user's settings that decide which operators are emitted.

    Attributes:
        specification: the TOSA graphs that the consumer supports.
    """

    specification: TosaSpecification = COMPLETE
