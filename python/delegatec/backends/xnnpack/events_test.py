# SPDX-License-Identifier: Apache-2.0
"""Events of the runtime, and the operations that they are of."""

from __future__ import annotations

import pytest

from delegatec.backends.xnnpack.events import operations_of


@pytest.mark.parametrize(
    ("operations", "events", "found"),
    [
        ("Add Multiply Add", ["Add (ND) #1", "Multiply (ND) #1", "Add (ND) #2"], [0, 1, 2]),
        # A layer that quantizes its operand itself.
        (
            "Convert FullyConnected Convert FullyConnected Convert",
            [
                "Fully Connected (NC, QDU8, F32, QB4W) GEMM #1",
                "Fully Connected (NC, QDU8, F32, QB4W) GEMM #2",
                "Convert (NC) #1",
            ],
            [1, 3, 4],
        ),
        # A convolution of 1 x 1, a product of a value and itself, a minimum with a constant.
        (
            "Convolution Multiply Minimum",
            ["Fully Connected (NC, F32) GEMM #1", "Square (NC) #1", "Clamp (NC) #1"],
            [0, 1, 2],
        ),
        # A copy for each operand.
        (
            "Sin Concatenate3 Copy Cos",
            ["Sine (NC) #1", *(f"Copy (NC, X32) #{n}" for n in (1, 2, 3, 4)), "Cosine (NC) #1"],
            [0, 1, 1, 1, 2, 3],
        ),
        # Bounds of a product.
        ("Multiply Softmax", ["Multiply (ND) #1", "Clamp (NC) #1", "Softmax (NC, F32) #1"], [0, 0, 1]),
        # An unknown kernel replaces an operation.
        ("Add Gelu Add", ["Add (ND) #1", "Approximate (NC) #1", "Add (ND) #2"], [0, 1, 2]),
        # Alone in its delegate.
        ("Gelu", ["Approximate (NC) #1"], [0]),
        ("", ["Add (ND) #1"], [None]),
        # Of another blob.
        ("Add Gelu", ["Max Pooling (NHWC, F32) #1", "Multiply (ND) #1"], [None, None]),
        ("Add", [], []),
    ],
)
def test_operations_of_events(operations: str, events: list[str], found: list[int | None]) -> None:
    assert operations_of(operations.split(), events) == found
