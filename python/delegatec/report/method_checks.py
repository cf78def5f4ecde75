# SPDX-License-Identifier: Apache-2.0
"""Checks of the methods of a manifest that was read, so that its users can trust their references."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from delegatec.report.methods import MethodInfo

# A range has a least and a largest value; scalars that the program computes have no range.
_ENDS: Final = (0, 2)


def problems_of(methods: Sequence[MethodInfo]) -> Iterator[str]:
    """Yields the problems of methods that their types do not exclude."""
    counts = Counter(method.name for method in methods)
    yield from (f"{count} methods are named {name!r}" for name, count in counts.items() if count > 1)
    for method in methods:
        for problem in (*_of_graph(method), *_of_memory(method), *_of_values(method)):
            yield f"method {method.name}: {problem}"


def _of_graph(method: MethodInfo) -> Iterator[str]:
    for index, node in enumerate(method.graph):
        for operand in node.inputs:
            if not operand < index:
                yield f"node {index} reads node {operand}, which does not precede it"
        if node.delegate is not None and not node.delegate < len(method.delegates):
            yield f"node {index} is delegate {node.delegate}, but there are {len(method.delegates)}"


def _of_memory(method: MethodInfo) -> Iterator[str]:
    memory = method.memory
    for storage in memory.storages:
        what, end = f"storage {storage.name}", storage.offset + storage.bytes
        # an input precedes all instructions, and a result without one follows them
        if not -1 <= storage.first <= method.instructions:
            yield f"{what} is written by instruction {storage.first} of {method.instructions}"
        if storage.last < storage.first:
            yield f"{what} is read by instruction {storage.last}, before {storage.first} writes it"
        sizes = [each.bytes for each in memory.memories] or [memory.arena_bytes]
        if not 1 <= storage.memory <= len(sizes):
            yield f"{what} is in memory {storage.memory} of {len(sizes)}"
        elif storage.bytes and end > sizes[storage.memory - 1]:
            yield f"{what} ends at {end} in an arena of {sizes[storage.memory - 1]} bytes"


def _of_values(method: MethodInfo) -> Iterator[str]:
    for value in method.quantized:
        for what, bounds in (("scales", value.scales), ("zero points", value.zero_points)):
            if len(bounds) not in _ENDS:
                yield f"the range of the {what} of {value.name} has {len(bounds)} values"
