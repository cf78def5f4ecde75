# SPDX-License-Identifier: Apache-2.0
"""Behavior of the runtime that depends on the device: GLSL leaves it undefined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from delegatec.backends.common.reference.unspecified import UnspecifiedBehavior


@dataclass(frozen=True)
class Unspecified(UnspecifiedBehavior):
    """Choices for the runtime's shaders.

    Attributes:
        barriers: some invocations of a workgroup return before a barrier that the others reach (softmax,
            reductions and variance of textures whose extent is not a multiple of the workgroup's). Most
            drivers ignore it; Mesa 26.1 computes wrong rows.
        texels: texels outside of an image are zero, or raise (softmax of less than four elements along an
            axis that is not packed).
        rounding: how `round` rounds x.5.
        powers: `pow` of a negative base.
        nan: minimum, maximum and clamp of a NaN: the other operand, or the NaN.
        integers: a float that its integer type cannot hold, or an integer divided by zero.
    """

    runtime: ClassVar = "the Vulkan runtime"

    barriers: Literal["ignored", "raise"] = "raise"
    texels: Literal["zero", "raise"] = "raise"
    rounding: Literal["even", "away", "raise"] = "even"
    powers: Literal["nan", "magnitude", "raise"] = "nan"
    nan: Literal["other", "nan", "raise"] = "nan"
    integers: Literal["wrap", "saturate", "raise"] = "wrap"


DEFAULT: Final = Unspecified()
STRICT: Final = Unspecified.strict()
