# SPDX-License-Identifier: Apache-2.0
"""The minimum memory of a method's instructions, from a program file of any compiler."""

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
    """Returns the maximum bytes of planned memory alive at one time, for the file's order of instructions.

    A tensor is alive from its first to its last use; inputs from the start, outputs to the end, mutable
    buffers always. Tensors that overlap while both are alive (views) count once.

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
    """Returns the positions of the first and last use of each planned tensor, by index."""
    chain = method.chains[0].instructions
    end = len(chain)
    times: dict[int, list[int]] = {index: [-1] for index in method.inputs}
    for index in method.outputs:
        times.setdefault(index, []).append(end)
    for index, value in enumerate(method.values):
        if isinstance(value, Tensor) and value.allocation is not None and value.data is not None:
            times.setdefault(index, []).extend((-1, end))
    for position, instruction in enumerate(chain):
        assert isinstance(instruction, KernelCall | DelegateCall), "live_bytes does not support jumps"
        for index in _named(method, instruction.args):
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
    """Returns (arena, start, end), with the end rounded up to the alignment."""
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
