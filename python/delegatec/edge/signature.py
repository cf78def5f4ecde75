# SPDX-License-Identifier: Apache-2.0
"""Call signatures: everything that determines the metadata of a call's results and its decomposition."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.symbols import sizes_key


def call_signature(target: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Hashable:
    """Returns a key that is equal for calls with the same result metadata and decomposition.

    Tensors are represented by shape, dtype and device; symbolic integers by their expression; constants by
    type and value (1, 1.0 and True differ).
    """
    return (target, _of(args), tuple((name, _of(value)) for name, value in kwargs.items()))


def _of(value: Any) -> Hashable:
    if isinstance(value, Node):
        return ("node", _of_value(value.meta["val"]))
    if isinstance(value, (tuple, list)):
        return tuple(_of(item) for item in value)
    if isinstance(value, slice):
        return ("slice", _of((value.start, value.stop, value.step)))
    # repr distinguishes -0.0 and 0.0, and nan equals nan
    return (type(value), repr(value)) if isinstance(value, float) else (type(value), value)


def _of_value(val: Any) -> Hashable:
    if isinstance(val, torch.Tensor):
        return (sizes_key(val), val.dtype, val.device.type)
    if isinstance(val, (tuple, list)):
        return tuple(_of_value(item) for item in val)
    if isinstance(val, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return (type(val), str(val.node.expr))
    return (type(val), val)
