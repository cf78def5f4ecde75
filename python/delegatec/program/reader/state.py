# SPDX-License-Identifier: Apache-2.0
"""The buffers of a method that keep their values."""

from __future__ import annotations

from delegatec.program.reader.model import Method, Tensor


def state_of(method: Method) -> list[Tensor]:
    """Returns the tensors in planned memory that have a name or initial bytes, but no parts of others."""
    parts = {id(each) for each in parts_of_state(method)}
    return [
        each for each in _planned(method) if (each.name or each.data is not None) and id(each) not in parts
    ]


def parts_of_state(method: Method) -> list[Tensor]:
    """Returns the tensors without a name that only initialize a part of one with a name."""
    spans = [_span(each) for each in _planned(method) if each.name]
    others = [each for each in _planned(method) if not each.name and each.data is not None]
    return [each for each in others if any(_is_inside(_span(each), span) for span in spans)]


def _planned(method: Method) -> list[Tensor]:
    return [each for each in method.values if isinstance(each, Tensor) and each.allocation is not None]


def _span(tensor: Tensor) -> tuple[int, int, int]:
    """Returns the arena, and the first byte and the end there."""
    assert tensor.allocation is not None
    start = tensor.allocation.offset
    return tensor.allocation.arena, start, start + tensor.nbytes


def _is_inside(span: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    return span[0] == other[0] and other[1] <= span[1] and span[2] <= other[2]
