# SPDX-License-Identifier: Apache-2.0
"""The memory that a delegate takes of the allocators that an app gives the runtime."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DelegateMemory:
    """The memory of one delegate.

    Attributes:
        handle: bytes of the method allocator that the backend allocates while the delegate is loaded, on a
            64-bit platform, in one piece at a multiple of 8; None if unknown.
        temporary: the most bytes of the temporary allocator at one time, in one piece at a multiple of 16,
            while the delegate runs; None if unknown.
    """

    handle: int | None = None
    temporary: int | None = None
