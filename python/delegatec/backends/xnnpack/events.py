# SPDX-License-Identifier: Apache-2.0
"""Operations of a blob that the runtime's events are of: events have names of XNNPACK's kernels, and no ids.

Source: `operator-type-defs.h` of XNNPACK 1adaa7c7. The runtime runs operations in the order of the blob and
names the n-th one of a kind "Kind (layout, dtypes) variant #n". It leaves some out, such as a conversion that
a layer does itself, and replaces others, such as a product of a value and itself by a square.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing

from delegatec.backends.xnnpack.operands import OPERATION_NAMES

# Kind of an event -> operations of a blob that it can be of, if that is not an operation of this name.
_OPERATIONS: Final[Mapping[str, frozenset[str]]] = {
    kind: frozenset(names.split())
    for kind, names in {
        "Abs": "Absolute",
        "ArgMax Pooling": "ArgMaxPooling",
        "Average Pooling": "AveragePooling GlobalAveragePooling",
        "Batch Matrix Multiply": "BatchMatrixMultiply",
        # A minimum or maximum with a constant is a bound.
        "Clamp": "Clamp Minimum Maximum",
        "Constant Pad": "ConstantPad",
        "Convolution": "Convolution DepthwiseConvolution",
        "Copy": "Copy Concatenate2 Concatenate3 Concatenate4 Concatenate5",
        "Cosine": "Cos",
        "Deconvolution": "TransposedConvolution",
        "Dynamic Fully Connected": "FullyConnected",
        "ELU": "Elu",
        # A convolution of 1 x 1 is a layer, too.
        "Fully Connected": "FullyConnected Convolution",
        "GELU": "Gelu",
        "LeakyReLU": "LeakyRelu",
        "Max Pooling": "MaxPooling",
        "Mean": "GlobalAveragePooling",
        "PReLU": "Prelu",
        "Reciprocal Square Root": "ReciprocalSquareRoot",
        "Resize Bilinear": "ResizeBilinear",
        "Sine": "Sin",
        "Square": "Square Multiply",
        "Square Root": "SquareRoot",
        "Static Reshape": "Reshape",
        "TanH": "Tanh",
    }.items()
}
_KNOWN: Final = frozenset(OPERATION_NAMES.values())
# Costs of an alignment.
_REPLACED: Final = 3
_WITHOUT_EVENT: Final = 2
_WITHOUT_OPERATION: Final = 4
# More than any alignment costs.
_INFINITE: Final = 2**40
# How far an event can be from its operation's place, in events.
_FARTHEST: Final = 64

Array = numpy.typing.NDArray[Any]


class _Step(enum.IntEnum):
    """What the end of an alignment is; of those that cost the same, the first."""

    EVENT = 0  # without an operation
    OPERATION = 1  # without an event
    PAIR = 2


def operations_of(operations: Sequence[str], events: Sequence[str]) -> list[int | None]:
    """Returns the index of the operation that each event of one run of a delegate is of, or None.

    Of all ways to pair the two sequences in order, it is one with the least cost. If most of these pairs are
    of different kinds, the events are of another blob, and all are None.

    Args:
        operations: names of the blob's operations, in order.
        events: names of the events, in order.
    """
    # A concatenation copies each of its operands.
    expected = [
        (index, name)
        for index, name in enumerate(operations)
        for _ in range(int(name[-1]) if name.startswith("Concatenate") else 1)
    ]
    allowed = [_allowed(event) for event in events]
    found: list[int | None] = [None] * len(events)
    for e, o in _pairs([name for _, name in expected], allowed):
        found[e] = expected[o][0]
    if sum(_is_other(found[e], operations, allowed[e]) for e in range(len(events))) > len(events) / 2:
        return [None] * len(events)
    for e, event in enumerate(events):
        if found[e] is None and e and event.startswith("Clamp"):
            found[e] = found[e - 1]  # bounds of its result, that its kernel does not apply
    return found


def _pairs(expected: Sequence[str], allowed: Sequence[frozenset[str]]) -> Iterator[tuple[int, int]]:
    """Yields the indices of the pairs of an alignment with the least cost, from its end.

    A row of costs is a few operations of numpy: a recurrent layer has thousands of events.

    Args:
        expected: names of operations, in order.
        allowed: of each event, in order: the operations that it can be of.
    """
    count = len(expected)
    farthest = abs(count - len(allowed)) + _FARTHEST
    kinds = {kind: np.array([name not in kind for name in expected], bool) for kind in set(allowed)}
    first, costs = 0, _WITHOUT_EVENT * np.arange(min(count, farthest) + 1)
    rows = [(first, np.full(len(costs), _Step.OPERATION, np.uint8))]
    for e, kind in enumerate(allowed, 1):
        # costs of the first `e` events with the first `o` operations, from the `start`-th to the `end`-th
        start, end = max(0, e - farthest), min(count, e + farthest)
        by_event = _part(costs, first, start, end) + _WITHOUT_OPERATION
        by_pair = _part(costs, first, start - 1, end - 1)
        by_pair[max(0, 1 - start) :] += _REPLACED * kinds[kind][max(start, 1) - 1 : end]
        skipped = _WITHOUT_EVENT * np.arange(end - start + 1)
        row = np.minimum.accumulate(np.minimum(by_event, by_pair) - skipped) + skipped
        steps = np.where(row == by_pair, _Step.PAIR, _Step.OPERATION).astype(np.uint8)
        steps[1:][row[1:] == row[:-1] + _WITHOUT_EVENT] = _Step.OPERATION
        steps[row == by_event] = _Step.EVENT
        rows.append((start, steps))
        first, costs = start, row
    e, o = len(allowed), count
    while e or o:
        start, steps = rows[e]
        step = steps[o - start]
        e, o = e - (step != _Step.OPERATION), o - (step != _Step.EVENT)
        if step == _Step.PAIR:
            yield e, o


def _part(costs: Array, first: int, start: int, end: int) -> Array:
    """Returns the costs from the `start`-th to the `end`-th operation; those beyond the row are infinite."""
    part = np.full(end - start + 1, _INFINITE, np.int64)
    low, high = max(start, first), min(end, first + len(costs) - 1)
    part[low - start : high - start + 1] = costs[low - first : high - first + 1]
    return part


def _is_other(found: int | None, operations: Sequence[str], allowed: frozenset[str]) -> bool:
    """Whether an event of a known kind is not of the operation that it is paired with."""
    known = not _KNOWN.isdisjoint(allowed)
    return known and (found is None or operations[found] not in allowed)


def _allowed(event: str) -> frozenset[str]:
    kind = event.partition(" (")[0]
    return _OPERATIONS.get(kind, frozenset([kind]))
