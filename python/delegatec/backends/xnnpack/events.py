# SPDX-License-Identifier: Apache-2.0
"""Operations of a blob that the runtime's events are of: events have names of XNNPACK's kernels, and no ids.

Source: `operator-type-defs.h` of XNNPACK 1adaa7c7. The runtime runs operations in the order of the blob and
names the n-th one of a kind "Kind (layout, dtypes) variant #n". It leaves some out, such as a conversion that
a layer does itself, and replaces others, such as a product of a value and itself by a square.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

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
# How far an event can be from its operation's place, in events.
_FARTHEST: Final = 64


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
    farthest = abs(len(expected) - len(events)) + _FARTHEST
    # (events, operations) before which a row ends -> cost, and the step that leads there
    costs: dict[tuple[int, int], tuple[int, str]] = {(0, 0): (0, "")}
    for e in range(len(events) + 1):
        for o in range(max(0, e - farthest), min(len(expected), e + farthest) + 1):
            steps = []
            if (e - 1, o - 1) in costs:
                wrong = expected[o - 1][1] not in allowed[e - 1]
                steps.append((costs[e - 1, o - 1][0] + _REPLACED * wrong, "pair"))
            if (e, o - 1) in costs:
                steps.append((costs[e, o - 1][0] + _WITHOUT_EVENT, "operation"))
            if (e - 1, o) in costs:
                steps.append((costs[e - 1, o][0] + _WITHOUT_OPERATION, "event"))
            if steps:
                costs[e, o] = min(steps)
    found: list[int | None] = [None] * len(events)
    e, o = len(events), len(expected)
    while e or o:
        step = costs[e, o][1]
        if step == "pair":
            found[e - 1] = expected[o - 1][0]
        e, o = e - (step != "operation"), o - (step != "event")
    if sum(_is_other(found[e], operations, allowed[e]) for e in range(len(events))) > len(events) / 2:
        return [None] * len(events)
    for e, event in enumerate(events):
        if found[e] is None and e and event.startswith("Clamp"):
            found[e] = found[e - 1]  # bounds of its result, that its kernel does not apply
    return found


def _is_other(found: int | None, operations: Sequence[str], allowed: frozenset[str]) -> bool:
    """Whether an event of a known kind is not of the operation that it is paired with."""
    known = not _KNOWN.isdisjoint(allowed)
    return known and (found is None or operations[found] not in allowed)


def _allowed(event: str) -> frozenset[str]:
    kind = event.partition(" (")[0]
    return _OPERATIONS.get(kind, frozenset([kind]))
