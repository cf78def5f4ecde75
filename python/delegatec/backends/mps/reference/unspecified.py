# SPDX-License-Identifier: Apache-2.0
"""Behavior of MPSGraph that neither Apple's documentation nor the runtime's source specifies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from delegatec.backends.common.reference.unspecified import UnspecifiedBehavior


@dataclass(frozen=True)
class Unspecified(UnspecifiedBehavior):
    """Choices for MPSGraph.

    Attributes:
        rounding: how Round rounds x.5. MPSGraph has `rint`, which is documented to round to even; others
            measured rounding away from zero on macOS 27.
        nan: the result of Minimum, Clamp, Relu and max pooling for a NaN: the other operand, or the NaN.
            MPSGraph also has operations that are documented to propagate it. PyTorch's users saw the other
            operand (pytorch/pytorch#143976, #122710, #183571).
        ties: the index that max pooling returns of several equal elements.
        reads: the result of a gather at an index out of range, negative ones included.
        writes: what IndexPut and Scatter do at one. (`scatterAlongAxis` is documented to skip it.)
        duplicates: which of several updates of one element takes effect.
        float_casts: a cast of a float to an integer type that cannot represent it. NaN becomes 0, or the
            lowest.
        integer_casts: a cast of an integer to a narrower type that cannot represent it.
        bool_cast: when a float is true: if it is not zero, or if its integer part is not.
        quotient: an integer divided by zero.
        booleans: sum, difference and product of bool: by "not zero", or modulo two.
        bounds: Clamp to an empty range.
        windows: max pooling of nothing but padding (average pooling: of no counted element).
        indices: whether a gather supports indices that are not int32.
        axes: whether an axis that MPSGraph declares as unsigned may be negative.
        scales: whether dequantizing supports scales of another dtype than its result.
        outputs: whether an output may be an input, a constant, or another output.
    """

    runtime: ClassVar = "MPSGraph"

    rounding: Literal["away", "even", "raise"] = "away"
    nan: Literal["other", "nan", "raise"] = "other"
    ties: Literal["first", "last", "raise"] = "first"
    reads: Literal["raise", "zero", "nearest", "wrap"] = "raise"
    writes: Literal["raise", "skip", "nearest", "wrap"] = "raise"
    duplicates: Literal["last", "first", "raise"] = "last"
    float_casts: Literal["saturate", "wrap", "raise"] = "saturate"
    integer_casts: Literal["wrap", "saturate", "raise"] = "wrap"
    bool_cast: Literal["nonzero", "truncated", "raise"] = "nonzero"
    quotient: Literal["zero", "ones", "raise"] = "zero"
    booleans: Literal["logical", "modular", "raise"] = "logical"
    bounds: Literal["high", "low", "raise"] = "high"
    windows: Literal["infinite", "zero", "raise"] = "infinite"
    indices: Literal["convert", "raise"] = "convert"
    axes: Literal["wrap", "raise"] = "wrap"
    scales: Literal["convert", "raise"] = "convert"
    outputs: Literal["copy", "raise"] = "copy"


DEFAULT: Final = Unspecified()
STRICT: Final = Unspecified.strict()
