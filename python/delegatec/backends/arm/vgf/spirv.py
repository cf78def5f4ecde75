# SPDX-License-Identifier: Apache-2.0
"""Instructions of a SPIR-V module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final

_MAGIC: Final = 0x07230203
_HEADER: Final = 5


class Opcode(IntEnum):
    """The instructions of a graph."""

    EXT_INST_IMPORT = 11
    EXT_INST = 12
    TYPE_BOOL = 20
    TYPE_INT = 21
    TYPE_FLOAT = 22
    TYPE_STRUCT = 30
    CONSTANT_TRUE = 41
    CONSTANT_FALSE = 42
    CONSTANT = 43
    CONSTANT_COMPOSITE = 44
    CONSTANT_NULL = 46
    DECORATE = 71
    COMPOSITE_EXTRACT = 81
    TYPE_TENSOR = 4163
    GRAPH_CONSTANT = 4181
    GRAPH_ENTRY_POINT = 4182
    GRAPH_INPUT = 4184
    GRAPH_SET_OUTPUT = 4185
    CONSTANT_REPLICATE = 4461


BINDING: Final = 33
"""The decoration that numbers a variable."""


def instructions(words: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
    """Yields opcode and operands of each instruction.

    Raises:
        ValueError: the words are not a SPIR-V module.
    """
    if len(words) < _HEADER or words[0] != _MAGIC:
        raise ValueError("its module is not SPIR-V")
    at = _HEADER
    while at < len(words):
        size, opcode = divmod(words[at], 1 << 16)
        if not 0 < size <= len(words) - at:
            raise ValueError(f"the instruction at word {at} of its module has {size} words")
        yield opcode, words[at + 1 : at + size]
        at += size


def text(words: Sequence[int]) -> tuple[str, int]:
    """Returns a string at the start of operands, and its length in words."""
    data = b"".join(word.to_bytes(4, "little") for word in words)
    end = data.find(b"\0")
    if end < 0:
        raise ValueError("a string of its module has no end")
    return data[:end].decode(errors="replace"), end // 4 + 1
