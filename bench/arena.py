# SPDX-License-Identifier: Apache-2.0
"""The least memory that a method's instructions need, read off the finished file, whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterator

from delegatec.program.planning.memory_plan import ALIGNMENT
from delegatec.program.reader.model import (
    DelegateCall,
    KernelCall,
    Method,
    Tensor,
    TensorList,
)


def live_bytes(method: Method) -> int:
    """The most bytes of planned memory in use at one time, for the order of instructions in the file.

    A tensor is in use from the first instruction that names it to the last; an input from the start, an
    output to the end, a mutable buffer always. Tensors that overlap while both are in use (views) count
    once.

    Args:
        method: without jumps.
    """
    spans = _spans(method)
    most = 0
    for time in sorted({first for first, _ in spans.values()}):
        ranges = sorted(
            _bytes(method.tensor(index)) for index, (first, last) in spans.items() if first <= time <= last
        )
        most = max(most, _covered(ranges))
    return most


def _spans(method: Method) -> dict[int, tuple[int, int]]:
    """Index of each planned tensor -> when it is first and last named."""
    steps = method.chains[0].instructions
    end = len(steps)
    times: dict[int, list[int]] = {index: [-1] for index in method.inputs}
    for index in method.outputs:
        times.setdefault(index, []).append(end)
    for index, value in enumerate(method.values):
        if isinstance(value, Tensor) and value.allocation is not None and value.data is not None:
            times.setdefault(index, []).extend((-1, end))
    for position, step in enumerate(steps):
        assert isinstance(step, KernelCall | DelegateCall), "live_bytes is for methods without jumps"
        for index in _named(method, step.args):
            times.setdefault(index, []).append(position)
    return {index: (min(at), max(at)) for index, at in times.items() if _is_planned(method, index)}


def _named(method: Method, args: tuple[int, ...]) -> Iterator[int]:
    for index in args:
        value = method.values[index]
        if isinstance(value, TensorList):
            yield from (item for item in value.items if item is not None)
        else:
            yield index


def _is_planned(method: Method, index: int) -> bool:
    value = method.values[index]
    return isinstance(value, Tensor) and value.allocation is not None


def _bytes(tensor: Tensor) -> tuple[int, int, int]:
    """(arena, start, end), the end rounded up to the alignment."""
    assert tensor.allocation is not None
    start = tensor.allocation.offset
    return tensor.allocation.arena, start, start - (-tensor.nbytes // ALIGNMENT) * ALIGNMENT


def _covered(ranges: list[tuple[int, int, int]]) -> int:
    covered, arena, reached = 0, 0, 0
    for this, start, end in ranges:
        if this != arena:
            arena, reached = this, 0
        covered += max(0, end - max(start, reached))
        reached = max(reached, end)
    return covered
