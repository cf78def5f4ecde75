# SPDX-License-Identifier: Apache-2.0
"""The call signature of an operator: what decides its outputs' metadata and its decomposition."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.symbols import sizes_key


def call_signature(target: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Hashable:
    """Equal for two calls whose outputs have the same shapes and dtypes and that decompose the same way.

    Tensors count by shape, dtype and device; symbolic integers by their expression; constants by type and
    value (1, 1.0 and True differ).
    """
    return (target, _of(args), tuple((name, _of(value)) for name, value in kwargs.items()))


def _of(value: Any) -> Hashable:
    if isinstance(value, Node):
        return ("node", _of_value(value.meta["val"]))
    if isinstance(value, (tuple, list)):
        return tuple(_of(item) for item in value)
    if isinstance(value, slice):
        return ("slice", _of((value.start, value.stop, value.step)))
    # repr tells -0.0 from 0.0 and makes nan equal to itself
    return (type(value), repr(value)) if isinstance(value, float) else (type(value), value)


def _of_value(val: Any) -> Hashable:
    if isinstance(val, torch.Tensor):
        return (sizes_key(val), val.dtype, val.device.type)
    if isinstance(val, (tuple, list)):
        return tuple(_of_value(item) for item in val)
    if isinstance(val, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return (type(val), str(val.node.expr))
    return (type(val), val)
