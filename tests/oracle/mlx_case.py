# SPDX-License-Identifier: Apache-2.0
"""A program for MLX whose results in the runtime are recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor

Results = list[list[Tensor] | None]
"""Outputs of each call; None for one that is refused."""


class Case(NamedTuple):
    """A program, and calls in a row, between which it keeps its state.

    Attributes:
        name: of the case.
        program: returns the bytes of the `.pte`.
        calls: inputs of each call.
        eager: returns the results of the module in eager mode; None for graphs that no module has.
        tolerance: of the executor, relative to the largest element; that of the dtype if it is 0.
    """

    name: str
    program: Callable[[], bytes]
    calls: Sequence[Sequence[Tensor]]
    eager: Callable[[], Results] | None = None
    tolerance: float = 0.0
