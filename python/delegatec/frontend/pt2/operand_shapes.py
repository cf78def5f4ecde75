# SPDX-License-Identifier: Apache-2.0
"""Shapes of operands that eager mode checks, and torch's functions for fake tensors do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch._ops import OpOverload

aten = torch.ops.aten

_Operands = Mapping[str, Any]
_Shapes = Callable[[_Operands], Mapping[str, Sequence[int]]]


def shape_problem(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Returns which operand of a call has an invalid shape; "" for none.

    Args:
        target: an operator, or another function.
        args: its arguments: fake tensors of static shapes, and scalars.
        kwargs: its keyword arguments.
    """
    if not isinstance(target, OpOverload) or target.overloadpacket not in _SHAPES:
        return ""
    operands: dict[str, Any] = {each.name: each.default_value for each in target._schema.arguments}
    operands.update(zip(operands, args, strict=False), **kwargs)
    try:
        expected = _SHAPES[target.overloadpacket](operands)
    except (LookupError, RuntimeError, TypeError):  # operands that the operator's own checks reject
        return ""
    return next(_differences(operands, expected), "")


def _differences(operands: _Operands, expected: Mapping[str, Sequence[int]]) -> Iterator[str]:
    for name, shape in expected.items():
        value = operands.get(name)
        if isinstance(value, torch.Tensor) and list(value.shape) != list(shape):
            yield f"{name} has the shape {list(value.shape)}, not {list(shape)}"


def _of_convolution(operands: _Operands) -> Mapping[str, Sequence[int]]:
    return {"bias": operands["weight"].shape[:1]}


def _of_transposed_convolution(operands: _Operands) -> Mapping[str, Sequence[int]]:
    return {"bias": [operands["weight"].shape[1] * operands["groups"]]}


def _of_general_convolution(operands: _Operands) -> Mapping[str, Sequence[int]]:
    return (_of_transposed_convolution if operands["transposed"] else _of_convolution)(operands)


def _of_group_norm(operands: _Operands) -> Mapping[str, Sequence[int]]:
    return dict.fromkeys(("weight", "bias"), operands["input"].shape[1:2])


def _of_slice(operands: _Operands) -> Mapping[str, Sequence[int]]:
    part = aten.slice.Tensor(*(operands[name] for name in ("self", "dim", "start", "end", "step")))
    return {"src": part.shape}


def _of_selection(operands: _Operands) -> Mapping[str, Sequence[int]]:
    part = aten.select.int(*(operands[name] for name in ("self", "dim", "index")))
    return {"src": part.shape}


_SHAPES: Final[dict[Any, _Shapes]] = {
    aten.conv1d: _of_convolution,
    aten.conv2d: _of_convolution,
    aten.conv3d: _of_convolution,
    aten.conv_transpose1d: _of_transposed_convolution,
    aten.conv_transpose2d: _of_transposed_convolution,
    aten.conv_transpose3d: _of_transposed_convolution,
    aten.convolution: _of_general_convolution,
    aten.native_group_norm: _of_group_norm,
    aten.select_scatter: _of_selection,
    aten.slice_scatter: _of_slice,
}
