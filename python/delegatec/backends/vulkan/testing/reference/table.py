# SPDX-License-Identifier: Apache-2.0
"""All cases."""

from __future__ import annotations

from typing import Final

from delegatec.backends.vulkan.testing.reference import attention, cases, images, quantized
from delegatec.backends.vulkan.testing.reference.cases import Case

CASES: Final[tuple[Case, ...]] = (
    *cases.ELEMENTWISE,
    *cases.MOVES,
    *cases.PRODUCTS,
    *cases.NORMALIZATION,
    *cases.REDUCTION,
    *images.CONVOLUTION,
    *images.IMAGES,
    *images.GATHERS,
    *images.CREATION,
    *attention.CASES,
    *quantized.CASES,
)
