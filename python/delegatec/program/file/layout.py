# SPDX-License-Identifier: Apache-2.0
"""Where in a .pte the bytes of constants, mutable data and delegates go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from delegatec.delegation import Part
from delegatec.program.alignment import align
from delegatec.program.content import ContentIndex
from delegatec.program.emitted import Delegate, EmittedProgram
from delegatec.program.file.segments import Parts, Segments, concatenate


@dataclass
class Layout:
    """Where things are.

    Attributes:
        segments: all segments.
        constant_segment: index of the segment with the constants.
        constant_offsets: offset of each constant in it; entry 0 stands for "no constant".
        mutable_segment: index of the segment with the initial bytes of mutable buffers.
        mutable_offsets: as `constant_offsets`.
        inline: blobs that lie inside the FlatBuffer.
        named: key of named data -> its segment.
        delegates: method -> for each of its delegates the segment, or the index of the inline blob.
    """

    segments: Segments
    constant_segment: int = 0
    constant_offsets: list[int] = field(default_factory=list)
    mutable_segment: int = 0
    mutable_offsets: list[int] = field(default_factory=list)
    inline: list[Sequence[Part]] = field(default_factory=list)
    named: dict[str, int] = field(default_factory=dict)
    delegates: dict[str, list[int]] = field(default_factory=dict)


def lay_out(program: EmittedProgram) -> Layout:
    """Constants first, then mutable data, delegates, named data; equal blobs are stored once."""
    options = program.options
    layout = Layout(Segments(options.segment_alignment))
    layout.constant_offsets, parts = pack(program.constants, options.constant_alignment)
    if parts:
        layout.constant_segment = layout.segments.add(parts, options.constant_alignment)
    layout.mutable_offsets, parts = pack(program.mutable_data, options.constant_alignment)
    if parts:
        layout.mutable_segment = layout.segments.add(parts, options.constant_alignment)
    known = ContentIndex()
    for method in program.methods:
        layout.delegates[method.name] = [_place(program, layout, known, d) for d in method.delegates]
    known = ContentIndex()  # blobs may be numbered otherwise
    for key, item in program.named_data.items():
        fresh = len(layout.segments.spans)
        layout.named[key] = known.find_or_add([item.data], fresh)
        if layout.named[key] == fresh:
            layout.segments.add([(0, item.data)], item.alignment)
    return layout


def _place(program: EmittedProgram, layout: Layout, known: ContentIndex, delegate: Delegate) -> int:
    inline = program.options.inline_delegates
    fresh = len(layout.inline) if inline else len(layout.segments.spans)
    index = known.find_or_add(delegate.blob, fresh)
    if index == fresh and inline:
        layout.inline.append(delegate.blob)
    elif index == fresh:
        layout.segments.add(concatenate(delegate.blob), program.options.delegate_alignment)
    return index


def pack(data: Sequence[memoryview], alignment: int) -> tuple[list[int], Parts]:
    """Lays runs of bytes behind each other in one segment; one that is a part of another lies inside it.

    Args:
        data: the runs.
        alignment: of each, in bytes.

    Returns:
        The offset of each run, behind a leading 0, and what the segment is made of.
    """
    inside = _contained(data, alignment)
    offsets, end = [0] * (len(data) + 1), 0
    parts: Parts = []
    for index, item in enumerate(data):
        if index not in inside:
            offsets[index + 1] = align(end, alignment)
            parts.append((offsets[index + 1], item))
            end = offsets[index + 1] + len(item)
    for index, (owner, offset) in inside.items():
        offsets[index + 1] = offsets[owner + 1] + offset
    return offsets, parts


def _contained(data: Sequence[memoryview], alignment: int) -> dict[int, tuple[int, int]]:
    """Run that is a view of a part of another one's memory -> that one, and the offset in it."""
    starts = [np.frombuffer(item, np.uint8).ctypes.data if len(item) else 0 for item in data]
    order = sorted((i for i in range(len(data)) if len(data[i])), key=lambda i: (starts[i], -len(data[i])))
    found: dict[int, tuple[int, int]] = {}
    owner = -1
    for index in order:
        offset = starts[index] - starts[owner]
        if owner >= 0 and offset + len(data[index]) <= len(data[owner]) and offset % alignment == 0:
            found[index] = (owner, offset)
        elif owner < 0 or offset + len(data[index]) > len(data[owner]):
            owner = index
    return found
