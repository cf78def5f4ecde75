# SPDX-License-Identifier: Apache-2.0
"""Layout of a `.pte` file: the placement of constants, mutable data and delegates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from delegatec.delegation import ComputedBytes, NamedData, Part
from delegatec.delegation.protocol.parts import read
from delegatec.program.alignment import align
from delegatec.program.content import ContentIndex, equal_bytes
from delegatec.program.emitted import Delegate, EmittedProgram
from delegatec.program.file.segments import Parts, Segments, concatenate

_HEAD_BYTES: Final = 192


@dataclass(frozen=True)
class BlobLocation:
    """The location of a blob.

    Attributes:
        is_inline: whether it is inside the FlatBuffer.
        index: that of the inline blob, or of the segment.
    """

    is_inline: bool
    index: int


@dataclass
class Layout:
    """The layout of a file.

    Attributes:
        segments: all segments.
        constant_segment: index of the segment with the constants.
        constant_offsets: offset of each constant in it; entry 0 means "no constant".
        mutable_segment: index of the segment with the initial bytes of mutable buffers.
        mutable_offsets: like `constant_offsets`.
        inline: blobs inside the FlatBuffer.
        named: key of named data -> its segment.
        delegates: method -> the location of each delegate's blob.
    """

    segments: Segments
    constant_segment: int = 0
    constant_offsets: list[int] = field(default_factory=list)
    mutable_segment: int = 0
    mutable_offsets: list[int] = field(default_factory=list)
    inline: list[Sequence[Part]] = field(default_factory=list)
    named: dict[str, int] = field(default_factory=dict)
    delegates: dict[str, list[BlobLocation]] = field(default_factory=dict)


def lay_out(program: EmittedProgram) -> Layout:
    """Lays out constants, mutable data, delegates and named data; equal blobs are stored once."""
    options = program.options
    layout = Layout(Segments(options.segment_alignment))
    shared = _shared_constants(program)
    alignments = {
        index: _segment_alignment(program, program.named_data[key]) for key, index in shared.items()
    }
    layout.constant_offsets, parts = pack(program.constants, options.constant_alignment, alignments)
    if parts:
        alignment = max(options.constant_alignment, *alignments.values(), 1)
        layout.constant_segment = layout.segments.add(parts, alignment)
    layout.mutable_offsets, parts = pack(program.mutable_data, options.constant_alignment)
    if parts:
        layout.mutable_segment = layout.segments.add(parts, options.constant_alignment)
    blobs = {is_inline: ContentIndex() for is_inline in (False, True)}
    for method in program.methods:
        layout.delegates[method.name] = [_locate_blob(program, layout, blobs, d) for d in method.delegates]
    known = ContentIndex()  # different numbering of blobs
    for key, item in program.named_data.items():
        fresh = len(layout.segments.spans)
        offset = layout.constant_offsets[shared[key] + 1] if key in shared else None
        if offset is not None and offset % alignments[shared[key]] == 0:
            layout.named[key] = layout.segments.add_part(layout.constant_segment, offset, len(item.data))
            continue
        layout.named[key] = fresh if item.is_separate else known.find_or_add([item.data], fresh)
        if layout.named[key] == fresh:
            layout.segments.add([(0, item.data)], item.alignment)
    return layout


def _shared_constants(program: EmittedProgram) -> dict[str, int]:
    """Returns key of named data -> position of the constant with the same bytes, such as a tied embedding.

    No two keys have the same constant, since a runtime may identify named data by its address.
    """
    constants: dict[int, list[int]] = {}
    for index, data in enumerate(program.constants):
        constants.setdefault(len(data), []).append(index)
    shared: dict[int, str] = {}
    for key, item in program.named_data.items():
        for index in constants.get(len(item.data), ()):
            if index not in shared and _are_equal(item.data, program.constants[index]):
                shared[index] = key
                break
    return {key: index for index, key in shared.items()}


def _are_equal(first: Part, second: Part) -> bool:
    """Whether two byte sequences of one size are equal; most differ at the beginning."""
    heads = [read(part, 0, _HEAD_BYTES) for part in (first, second)]
    return bytes(heads[0]) == bytes(heads[1]) and equal_bytes(first, second)


def _segment_alignment(program: EmittedProgram, item: NamedData) -> int:
    """Returns the alignment of the segment of named data in bytes."""
    return max(program.options.segment_alignment, item.alignment)


def _locate_blob(
    program: EmittedProgram, layout: Layout, blobs: dict[bool, ContentIndex], delegate: Delegate
) -> BlobLocation:
    is_inline = delegate.inline or program.options.inline_delegates
    fresh = len(layout.inline) if is_inline else len(layout.segments.spans)
    index = blobs[is_inline].find_or_add(delegate.blob, fresh)
    if index == fresh and is_inline:
        layout.inline.append(delegate.blob)
    elif index == fresh:
        layout.segments.add(concatenate(delegate.blob), program.options.delegate_alignment)
    return BlobLocation(is_inline, index)


def pack(
    data: Sequence[Part], alignment: int, larger: Mapping[int, int] | None = None
) -> tuple[list[int], Parts]:
    """Concatenates byte sequences to one segment, in which views share the bytes of their base.

    Args:
        data: the sequences.
        alignment: alignment of each sequence in bytes.
        larger: index of a sequence that is not a view -> its alignment, if it is a larger one.

    Returns:
        The offset of each sequence, after a leading 0, and the parts of the segment.
    """
    inside = _contained(data, alignment)
    offsets, end = [0] * (len(data) + 1), 0
    parts: Parts = []
    for index, item in enumerate(data):
        if index not in inside:
            offsets[index + 1] = align(end, (larger or {}).get(index, alignment))
            parts.append((offsets[index + 1], item))
            end = offsets[index + 1] + len(item)
    for index, (owner, offset) in inside.items():
        offsets[index + 1] = offsets[owner + 1] + offset
    return offsets, parts


def _contained(data: Sequence[Part], alignment: int) -> dict[int, tuple[int, int]]:
    """Returns, for sequences that are views of a part of another one, the latter and the offset in it."""
    starts = {
        index: np.frombuffer(item, np.uint8).ctypes.data
        for index, item in enumerate(data)
        if not isinstance(item, ComputedBytes) and len(item)
    }
    order = sorted(starts, key=lambda i: (starts[i], -len(data[i])))
    found: dict[int, tuple[int, int]] = {}
    owner = -1
    for index in order:
        offset = starts[index] - starts.get(owner, 0)
        if owner >= 0 and offset + len(data[index]) <= len(data[owner]) and offset % alignment == 0:
            found[index] = (owner, offset)
        elif owner < 0 or offset + len(data[index]) > len(data[owner]):
            owner = index
    return found
