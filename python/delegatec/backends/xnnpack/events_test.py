# SPDX-License-Identifier: Apache-2.0
"""Events of the runtime, and the operations that they are of."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

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


def _recurrent(steps: int) -> tuple[list[str], list[str], list[int]]:
    """An unrolled recurrent layer: operations, events, and the operation of each event."""
    operations, events, found = list[str](), list[str](), list[int]()
    for step in range(steps):
        for operation, event in (
            ("Slice", "Slice (ND)"),
            ("FullyConnected", "Fully Connected (NC, F32) GEMM"),
            ("Reshape", ""),  # without an event
            ("Add", "Add (ND)"),
            ("Sigmoid", "Sigmoid (NC)"),
            ("Multiply", "Multiply (ND)"),
        ):
            if event:
                events.append(f"{event} #{step + 1}")
                found.append(len(operations))
            operations.append(operation)
    return operations, events, found


def test_thousands_of_events() -> None:
    operations, events, found = _recurrent(200)
    assert operations_of(operations, events) == found
    # one event of an unknown kernel, and one that is missing, do not move the others
    events[400] = "Approximate (NC) #1"
    del events[700], found[700]
    assert operations_of(operations, events) == found


def test_the_work_grows_with_the_events_and_not_with_their_square() -> None:
    def lines(steps: int) -> int:
        """Counts the lines of Python that an alignment executes."""
        count = 0

        def trace(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal count
            count += event == "line" and frame.f_globals is operations_of.__globals__
            return trace

        operations, events, _ = _recurrent(steps)
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            operations_of(operations, events)
        finally:
            sys.settrace(before)
        return count

    few, many = lines(40), lines(160)
    assert 160 * 5 < many < 5 * few
