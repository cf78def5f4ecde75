# SPDX-License-Identifier: Apache-2.0
"""What MPSGraph does where neither Apple's documentation nor the runtime's source says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from delegatec.backends.common.reference.unspecified import UnspecifiedBehavior


@dataclass(frozen=True)
class Unspecified(UnspecifiedBehavior):
    """Choices for MPSGraph.

    Attributes:
        halves: how Round rounds x.5. MPSGraph has `rint`, which is documented to round to even, besides; away
            from zero is what others measured on macOS 27.
        nan: what Minimum, Clamp, Relu and max pooling give for a NaN: the other operand, or the NaN. MPSGraph
            has operations that are documented to propagate it besides. Users of PyTorch saw the other operand
            (pytorch/pytorch#143976, #122710, #183571).
        ties: which of several equal elements' index max pooling gives.
        reads: what a look-up gives at an index out of range, negative ones included.
        writes: what IndexPut and Scatter do at one. (`scatterAlongAxis` is documented to skip it.)
        duplicates: which of several updates of one element stays.
        float_casts: an integer made of a float that it cannot hold. NaN becomes 0, or the lowest.
        integer_casts: an integer made of a wider one that it cannot hold.
        truth: when a float is true: if it is not zero, or if its integer part is not.
        quotient: an integer divided by zero.
        booleans: sum, difference and product of bool: by "not zero", or modulo two.
        bounds: Clamp to an empty range.
        windows: max pooling of nothing but padding (average pooling: of no counted element).
        indices: whether a look-up takes indices that are not int32.
        axes: whether an axis that MPSGraph declares as unsigned may be negative.
        scales: whether dequantising takes scales of another dtype than its result.
        outputs: whether an output may be an input, a constant, or another output.
    """

    runtime: ClassVar = "MPSGraph"

    halves: Literal["away", "even", "refuse"] = "away"
    nan: Literal["other", "nan", "refuse"] = "other"
    ties: Literal["first", "last", "refuse"] = "first"
    reads: Literal["refuse", "zero", "nearest", "wrap"] = "refuse"
    writes: Literal["refuse", "skip", "nearest", "wrap"] = "refuse"
    duplicates: Literal["last", "first", "refuse"] = "last"
    float_casts: Literal["saturate", "wrap", "refuse"] = "saturate"
    integer_casts: Literal["wrap", "saturate", "refuse"] = "wrap"
    truth: Literal["nonzero", "truncated", "refuse"] = "nonzero"
    quotient: Literal["zero", "ones", "refuse"] = "zero"
    booleans: Literal["logical", "modular", "refuse"] = "logical"
    bounds: Literal["high", "low", "refuse"] = "high"
    windows: Literal["infinite", "zero", "refuse"] = "infinite"
    indices: Literal["convert", "refuse"] = "convert"
    axes: Literal["wrap", "refuse"] = "wrap"
    scales: Literal["convert", "refuse"] = "convert"
    outputs: Literal["copy", "refuse"] = "copy"


DEFAULT: Final = Unspecified()
STRICT: Final = Unspecified.strict()
