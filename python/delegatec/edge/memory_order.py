# SPDX-License-Identifier: Apache-2.0
"""In which order the dimensions of a value are in memory, for all its sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true


def is_row_major(val: torch.Tensor) -> bool:
    """Whether the last dimension is innermost; False if that depends on sizes.

    `is_contiguous` and `is_contiguous_or_false` of torch compare dynamic sizes by those of the example, and
    leave a guard that narrows their ranges.
    """
    return val.is_contiguous() if not val._has_symbolic_sizes_strides else is_dense(val, range(val.dim()))


def is_dense(val: torch.Tensor, order: Sequence[int]) -> bool:
    """Whether a value has no gaps in memory and the order of dimensions; False if that depends on sizes.

    Args:
        val: the value.
        order: the dimensions from outermost to innermost.
    """
    expected: Any = 1
    for dim in reversed(order):
        size, stride = val.shape[dim], val.stride(dim)
        if not statically_known_true(size == 1) and not statically_known_true(stride == expected):
            return False
        # torch infers strides next to a dimension that may be empty as if its size were 1
        expected = expected * torch.sym_max(size, 1)  # type: ignore[no-untyped-call]
    return True
