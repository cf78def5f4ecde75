# SPDX-License-Identifier: Apache-2.0
"""Where in a .pte the bytes of constants, mutable data and delegates go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from delegatec.program.emitted import EmittedProgram

# Alignment in bytes of a segment, and of a constant in its segment. Source: the runtime's loader, which maps
# segments and wants tensors at 16 bytes.
SEGMENT_ALIGNMENT: Final = 128
CONSTANT_ALIGNMENT: Final = 16

# What a segment is made of: parts, each with its offset in the segment.
Parts = list[tuple[int, bytes | memoryview]]


@dataclass
class Layout:
    """Segments of a program.

    Attributes:
        segments: (offset from the segment base, size in bytes) of each.
        parts: what each segment is made of.
        constant_segment: index of the segment with the constants.
        constant_offsets: offset of each constant in it; entry 0 stands for "no constant".
        mutable_segment: index of the segment with the initial bytes of mutable buffers.
        mutable_offsets: as `constant_offsets`.
        delegate_segments: method -> segment of each of its delegates.
    """

    segments: list[tuple[int, int]] = field(default_factory=list)
    parts: list[Parts] = field(default_factory=list)
    constant_segment: int = 0
    constant_offsets: list[int] = field(default_factory=list)
    mutable_segment: int = 0
    mutable_offsets: list[int] = field(default_factory=list)
    delegate_segments: dict[str, list[int]] = field(default_factory=dict)

    def add(self, parts: Parts) -> int:
        """Index of a new segment."""
        size = max((offset + len(data) for offset, data in parts), default=0)
        start = align(sum(self.segments[-1]), SEGMENT_ALIGNMENT) if self.segments else 0
        self.segments.append((start, size))
        self.parts.append(parts)
        return len(self.segments) - 1


def lay_out(program: EmittedProgram) -> Layout:
    """Constants first, then mutable data, then delegates in order; equal constants are one already."""
    layout = Layout()
    layout.constant_offsets, parts = _pack(program.constants)
    if parts:
        layout.constant_segment = layout.add(parts)
    layout.mutable_offsets, parts = _pack(program.mutable_data)
    if parts:
        layout.mutable_segment = layout.add(parts)
    for method in program.methods:
        layout.delegate_segments[method.name] = [
            layout.add(_concatenate(delegate.blob)) for delegate in method.delegates
        ]
    return layout


def align(offset: int, alignment: int) -> int:
    """The first multiple of `alignment` that is not below `offset`."""
    return -(-offset // alignment) * alignment


def _pack(data: Sequence[memoryview]) -> tuple[list[int], Parts]:
    offsets, end = [0], 0
    parts: Parts = []
    for item in data:
        start = align(end, CONSTANT_ALIGNMENT)
        offsets.append(start)
        parts.append((start, item))
        end = start + len(item)
    return offsets, parts


def _concatenate(blob: Sequence[bytes | memoryview]) -> Parts:
    parts: Parts = []
    end = 0
    for part in blob:
        parts.append((end, part))
        end += len(part)
    return parts
