# SPDX-License-Identifier: Apache-2.0
"""Features of a target, besides 8-bit and 32-bit integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from delegatec.backends.arm.capabilities import families
from delegatec.backends.arm.specification import TosaSpecification


@dataclass(frozen=True)
class Features:
    """Features of a target that choose the form of integer arithmetic.

    Attributes:
        wide_tables: whether it has int16 quantized values, and tables of them.
        bools: whether it has bool tensors, comparisons and selection.
        wide_products: whether it multiplies int16 matrices.
    """

    wide_tables: bool = True
    bools: bool = True
    wide_products: bool = True

    @staticmethod
    def of(specification: TosaSpecification) -> Features:
        """Returns the features of targets with a specification."""
        is_large = specification.mark not in families.SMALL_FAMILIES
        return Features("int16" in specification.extensions, bools=is_large, wide_products=is_large)


ALL: Final = Features()
