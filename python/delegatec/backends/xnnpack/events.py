# SPDX-License-Identifier: Apache-2.0
"""Operations of a blob that the runtime's events are of: events have names of XNNPACK's kernels, and no ids.

Source: `operator-type-defs.h` of XNNPACK 1adaa7c7. The runtime runs operations in the order of the blob, and names the
n-th one of a kind "Kind (layout, dtypes) variant #n".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

# Kind of an event -> operations of a blob that it can be of.
_OPERATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Abs": ("Absolute",),
    "ArgMax Pooling": ("ArgMaxPooling",),
    "Average Pooling": ("AveragePooling", "GlobalAveragePooling"),
    "Batch Matrix Multiply": ("BatchMatrixMultiply",),
    "Constant Pad": ("ConstantPad",),
    "Convolution": ("Convolution", "DepthwiseConvolution"),
    "Copy": ("Copy", "Concatenate2", "Concatenate3", "Concatenate4", "Concatenate5"),
    "Cosine": ("Cos",),
    "Deconvolution": ("TransposedConvolution",),
    "Dynamic Fully Connected": ("FullyConnected",),
    "ELU": ("Elu",),
    "Fully Connected": ("FullyConnected",),
    "GELU": ("Gelu",),
    "LeakyReLU": ("LeakyRelu",),
    "Max Pooling": ("MaxPooling",),
    "Mean": ("GlobalAveragePooling",),
    "PReLU": ("Prelu",),
    "Reciprocal Square Root": ("ReciprocalSquareRoot",),
    "Resize Bilinear": ("ResizeBilinear",),
    "Sine": ("Sin",),
    "Square Root": ("SquareRoot",),
    "Static Reshape": ("Reshape",),
    "TanH": ("Tanh",),
}


def operations_of(operations: Sequence[str], events: Sequence[str]) -> list[int | None]:
    """Returns the index of the operation that each event of one run of a delegate is of, or None.

    Operations without an event, such as a conversion that a layer does itself, are skipped.

    Args:
        operations: names of the blob's operations, in order.
        events: names of the events, in order.
    """
    found: list[int | None] = []
    position, copies = 0, 0
    for event in events:
        kind = event.partition(" (")[0]
        allowed = _OPERATIONS.get(kind, (kind,))
        # A concatenation copies each of its operands.
        if copies:
            if kind == "Copy":
                copies -= 1
                found.append(position - 1)
                continue
            copies = 0
        index = next((i for i in range(position, len(operations)) if operations[i] in allowed), None)
        found.append(index)
        if index is not None:
            position = index + 1
            name = operations[index]
            copies = int(name.removeprefix("Concatenate")) - 1 if name.startswith("Concatenate") else 0
    return found
