# SPDX-License-Identifier: Apache-2.0
"""Which TOSA operators Vela compiles for each family of Ethos-U, and the reason for others.

Vela has no fallback: one unsupported operator fails the whole graph. The limits are those that Vela 5.2.0
documents (`vela --supported-ops-report`), and those measured with small graphs on both sides of each limit
(`cases`). Where Vela accepts more than it documents, the documented limit counts, except for tables of INT16,
permutations of INT32, and convolutions with strides above 3, which Arm's own lowering emits, too. Vela
compiles each position of the result of such a convolution separately, and reads and writes at the right
addresses (`tests/oracle/vela_test.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from delegatec_schemas.tosa_graph import DType

from delegatec.backends.arm.building.operation import Operation, Value
from delegatec.backends.arm.capabilities import convolution_limits, reduction_limits, transpose_limits
from delegatec.backends.arm.capabilities.limits import Limit, constant, dtypes, first_problem, unless
from delegatec.backends.arm.dtypes import FORMAT_FLOATS, NAMES

FAMILIES: Final = ("u55", "u65", "u85")
"""Marks of specifications, see `TosaSpecification.mark`."""
SMALL_FAMILIES: Final = ("u55", "u65")
"""Those with the same, smaller set of operators."""

_MAX_BATCHES: Final = 4096
_MAX_COPIES: Final = 4096
"""More make Vela run for minutes: it schedules each product of a batch and each copy of a tile separately."""


def _no_empty(operation: Operation) -> str | None:
    for value in (*operation.inputs, *operation.outputs):
        if 0 in value.shape and not value.is_shape:
            return f"{value} is empty"
    return None


def _no_floats(operation: Operation) -> str | None:
    kinds = FORMAT_FLOATS.intersection(value.dtype for value in (*operation.inputs, *operation.outputs))
    return f"{NAMES[min(kinds)]} is not supported" if kinds else None


def _no_bool(operation: Operation) -> str | None:
    found = any(value.dtype == DType.BOOL for value in (*operation.inputs, *operation.outputs))
    return "BOOL tensors are not supported" if found else None


def _no_rank_0(operation: Operation) -> str | None:
    return None if operation.inputs[0].shape else "0-d tensors are not supported"


def _rounds(operation: Operation) -> str | None:
    return None if operation.attributes["round"] else "it must round: the NPU has no shift without rounding"


def _no_narrowing(operation: Operation) -> str | None:
    source, result = operation.inputs[0].dtype, operation.outputs[0].dtype
    return "INT32 cannot be narrowed" if source == DType.INT32 != result else None


def _copies(operation: Operation) -> str | None:
    multiples = operation.inputs[1].elements
    largest = max(multiples, default=1) if multiples else 1
    return f"{largest} copies, more than {_MAX_COPIES}" if largest > _MAX_COPIES else None


def _batches(operation: Operation) -> str | None:
    batches = operation.inputs[0].shape[0]
    return f"{batches} products, more than {_MAX_BATCHES}" if batches > _MAX_BATCHES else None


def _product_sizes(operation: Operation) -> str | None:
    _, rows, columns = operation.inputs[1].shape
    if max(rows, columns) > 65536:
        return f"{operation.inputs[1]} is larger than 65536 x 65536"
    return None


def _doubles(operation: Operation) -> str | None:
    source, *parameters = operation.inputs
    if source.shape[0] != 1:
        return f"{source.shape[0]} images, more than one"
    if operation.attributes["mode"] != 1:
        return "bilinear interpolation is not supported"
    given = [each.elements for each in parameters]
    if any(each is None for each in given):
        return None
    scale, offset, border = (tuple(each) for each in given if each is not None)
    factors = scale[0] // scale[1], scale[2] // scale[3]
    exact = [(f * d, d) for f, d in zip(factors, scale[1::2], strict=True)] == [scale[:2], scale[2:]]
    if not exact or (factors != (1, 1) and not {*factors} <= {2, 4, 8}):
        return f"scales {scale[0]}/{scale[1]} and {scale[2]}/{scale[3]}: each must be 2, 4 or 8"
    centers = tuple(1 - f for f in factors), tuple(f - 1 for f in factors)
    aligned = {(1, 1): [((0, 0), (0, 0))], (2, 2): [centers]}.get(scale[1::2], [])
    return None if (offset, border) in aligned else "pixels are aligned neither by centers nor by corners"


_BYTES: Final = (DType.INT8, DType.INT16)
_WORDS: Final = (DType.INT8, DType.INT16, DType.INT32)
_ELEMENTWISE: Final = (
    "ABS",
    "ADD",
    "CLAMP",
    "CLZ",
    "IDENTITY",
    "MAXIMUM",
    "MINIMUM",
    "MUL",
    "NEGATE",
    "SUB",
    "TABLE",
)
_PAD: Final[tuple[Limit, ...]] = (_no_rank_0, constant(2, "the value of the padding"))

_EVERY: Final[Mapping[str, Sequence[Limit]]] = {
    "AVG_POOL2D": (convolution_limits.channels,),
    "CONV2D": (convolution_limits.channels,),
    "CONV3D": (convolution_limits.channels, constant(1, "the weight"), constant(2, "the bias")),
    "DEPTHWISE_CONV2D": (convolution_limits.channels,),
    "MATMUL": (_batches,),
    "MAX_POOL2D": (convolution_limits.channels,),
    "PAD": _PAD,
    "TILE": (_copies,),
    "TRANSPOSE_CONV2D": (convolution_limits.channels, constant(1, "the weight"), constant(2, "the bias")),
}
"""Limits of all families."""

_SMALL: Final[Mapping[str, Sequence[Limit]]] = {
    **dict.fromkeys(_ELEMENTWISE, ()),
    "ARGMAX": reduction_limits.ARGMAX,
    "ARITHMETIC_RIGHT_SHIFT": (dtypes(DType.INT32), _rounds),
    "AVG_POOL2D": convolution_limits.AVERAGE_POOL,
    "CAST": (_no_narrowing,),
    "CONCAT": (dtypes(*_WORDS),),
    "CONV2D": convolution_limits.CONVOLUTION,
    "CONV3D": convolution_limits.CONVOLUTION_3D,
    "DEPTHWISE_CONV2D": convolution_limits.DEPTHWISE,
    "LOGICAL_LEFT_SHIFT": (dtypes(DType.INT32),),
    "MATMUL": (dtypes(DType.INT8), _product_sizes),
    "MAX_POOL2D": convolution_limits.MAX_POOL,
    "PAD": (dtypes(*_WORDS),),
    "REDUCE_MAX": (dtypes(*_BYTES),),
    "REDUCE_MIN": (dtypes(*_BYTES),),
    "REDUCE_SUM": reduction_limits.REDUCE_SUM,
    "RESCALE": (),
    "RESHAPE": (dtypes(*_WORDS),),
    "RESIZE": (dtypes(*_BYTES), _doubles),
    "REVERSE": (dtypes(*_BYTES), reduction_limits.width_or_height),
    "SLICE": (dtypes(*_WORDS),),
    "TILE": (dtypes(*_WORDS),),
    "TRANSPOSE": (dtypes(*_WORDS), transpose_limits.sizes),
    "TRANSPOSE_CONV2D": convolution_limits.TRANSPOSED,
}
"""Operators of U55 and U65, with their limits."""


def problem(family: str, operation: Operation) -> str | None:
    """Returns why Vela would not compile an operator that conforms to TOSA; None if it would.

    Args:
        family: of `FAMILIES`.
        operation: the operator. The bytes of its constants are not read.
    """
    name = operation.name
    small = family in SMALL_FAMILIES
    if small and name not in _SMALL:
        return f"{name} is not supported by Ethos-{family.upper()}"
    limits = (
        _no_empty,
        _no_floats,
        *unless(not small, _no_bool),
        *_EVERY.get(name, ()),
        *(_SMALL[name] if small else ()),
    )
    found = first_problem(limits, operation)
    return None if found is None else f"{name} on Ethos-{family.upper()}: {found}"


def unfused(family: str, operations: Iterable[Operation], outputs: Iterable[Value]) -> str | None:
    """Returns why accumulators of 48 bits cannot be fused with their RESCALE; None if they can.

    U55 and U65 have no tensors of 48 bits: the only use of a convolution of INT16 must be one RESCALE.

    Args:
        family: of `FAMILIES`.
        operations: of a graph.
        outputs: of the graph.
    """
    if family not in SMALL_FAMILIES:
        return None
    operations = list(operations)
    wide = {value for each in operations for value in each.outputs if value.dtype == DType.INT48}
    uses = Counter(value for each in operations for value in each.inputs if value in wide)
    rescaled = {each.inputs[0] for each in operations if each.name == "RESCALE"}
    kept = {*outputs}
    for value in sorted(wide, key=lambda each: each.name):
        if value in kept or uses[value] != 1 or value not in rescaled:
            return f"{value.name}, {value}, must have one use, a RESCALE, on Ethos-{family.upper()}"
    produced = {value for each in operations for value in each.outputs}
    for each in operations:
        if each.name == "RESCALE" and each.inputs[0].dtype == DType.INT48 and each.inputs[0] not in produced:
            return f"{each.inputs[0].name}, {each.inputs[0]}, cannot be an input on Ethos-{family.upper()}"
    return None
