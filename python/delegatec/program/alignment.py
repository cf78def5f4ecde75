# SPDX-License-Identifier: Apache-2.0
"""Offsets that are multiples of an alignment, in files and in memory."""

from __future__ import annotations


def align(offset: int, alignment: int) -> int:
    """The first multiple of `alignment` that is not below `offset`."""
    return -(-offset // alignment) * alignment
