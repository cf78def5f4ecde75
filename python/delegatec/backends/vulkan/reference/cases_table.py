# SPDX-License-Identifier: Apache-2.0
"""All cases."""

from __future__ import annotations

from typing import Final

from delegatec.backends.vulkan.reference import cases, cases_attention, cases_images, cases_quantized
from delegatec.backends.vulkan.reference.cases import Case

CASES: Final[tuple[Case, ...]] = (
    *cases.ELEMENTWISE,
    *cases.MOVES,
    *cases.PRODUCTS,
    *cases.NORMALIZATION,
    *cases.REDUCTION,
    *cases_images.CONVOLUTION,
    *cases_images.IMAGES,
    *cases_images.GATHERS,
    *cases_images.CREATION,
    *cases_attention.CASES,
    *cases_quantized.CASES,
)
