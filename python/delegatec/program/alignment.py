# SPDX-License-Identifier: Apache-2.0
"""Alignment of offsets in files and memory."""

from __future__ import annotations


def align(offset: int, alignment: int) -> int:
    """Returns the smallest multiple of `alignment` that is at least `offset`."""
    return -(-offset // alignment) * alignment
