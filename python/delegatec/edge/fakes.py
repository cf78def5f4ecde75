# SPDX-License-Identifier: Apache-2.0
"""Calls of operators on fake tensors, at a fraction of the cost of `FakeTensorMode`."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Final
from unittest.mock import patch

import torch
from torch._decomp import decomposition_table, meta_table
from torch._ops import OpOverload
from torch._subclasses import fake_tensor
from torch._subclasses.fake_impls import has_meta, op_implementations_checks
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager
from torch.fx.experimental import _config
from torch.fx.experimental.symbolic_shapes import _ShapeEnvGuardError

aten = torch.ops.aten

_CPU: Final = torch.device("cpu")
_META: Final = torch.device("meta")
# Operators without operands, whose device is an argument.
_CREATE: Final = frozenset(
    {
        aten.arange.default,
        aten.arange.start,
        aten.arange.start_step,
        aten.empty.memory_format,
        aten.full.default,
        aten.scalar_tensor.default,
    }
)
# Rules of the mode for symbolic sizes or other devices only.
_STATIC: Final = frozenset({aten._to_copy.default, aten.slice.Tensor, aten.view.default, *_CREATE})
_CONSTANT_TYPES: Final = (int, float, bool, str, type(None), torch.dtype, torch.memory_format)


def computed(mode: FakeTensorMode, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Returns the result of a call on fake tensors.

    If the mode would only run the operator's kernel for meta tensors, runs it directly.

    Args:
        mode: the mode of the tensors, entered.
        target: an operator, or another function.
        args: its arguments.
        kwargs: its keyword arguments.
    """
    if isinstance(target, OpOverload) and _is_direct(target):
        known = _without_device(target, kwargs)
        if _are_static((*args, *known.values()), operands=target not in _CREATE):
            if target in _CREATE:
                known["device"] = _META
            with contextlib.suppress(NotImplementedError):
                if torch.Tag.pointwise in target.tags:
                    return _of_elements(mode, target, args, known)
                return _on_cpu(mode, _of_kernel(mode, target, args, known))
    with no_shortcuts():
        try:
            return target(*args, **kwargs)
        except _ShapeEnvGuardError:
            with uncached(mode):
                return target(*args, **kwargs)


def no_shortcuts() -> AbstractContextManager[None]:
    """Returns a scope in which torch does not use shortcuts that depend on dynamic sizes ("is this size 1?").

    Those of the example would decide, and torch would take it that other sizes do not occur.
    """
    scope: AbstractContextManager[None] = _config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]
    return scope


@contextlib.contextmanager
def uncached(mode: FakeTensorMode) -> Iterator[None]:
    """Computes fake tensors without their mode's cache, which asks of views whether a symbolic size is 1."""
    with patch.object(mode, "cache_enabled", False):
        yield


# Overload and dtypes of its operands -> dtype of the result.
_DTYPES: Final[dict[Hashable, torch.dtype]] = {}


def _of_elements(
    mode: FakeTensorMode, target: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Returns the result of an elementwise operator, whose dtype does not depend on sizes.

    The kernel, often in Python, runs once for each combination of dtypes.
    """
    values = (*args, *kwargs.values())
    operands = [value for value in values if type(value) is FakeTensor]
    shape = _joint_shape(operands)
    if shape is None or any(isinstance(value, (list, tuple)) for value in values):
        return _on_cpu(mode, _of_kernel(mode, target, args, kwargs))
    key = (target, tuple(kwargs), tuple(_kind(value) for value in values))
    if key not in _DTYPES:
        result = _of_kernel(mode, target, args, kwargs)
        if type(result) is torch.Tensor and result.shape == shape and result.is_contiguous():
            _DTYPES[key] = result.dtype
        return _on_cpu(mode, result)
    with in_kernel_invocation_manager(mode):
        result = torch.empty(shape, dtype=_DTYPES[key], device=_META)
    return FakeTensor(mode, result, _CPU)


def _joint_shape(operands: Sequence[FakeTensor]) -> tuple[int, ...] | None:
    """Returns the largest operand's shape if the others broadcast to it and all are row-major."""
    shape = tuple(max(operands, key=lambda each: (each.ndim, each.numel())).shape)
    for each in operands:
        aligned = shape[len(shape) - each.ndim :]
        if not each.is_contiguous() or not all(
            size in (1, aligned_size) for size, aligned_size in zip(each.shape, aligned, strict=True)
        ):
            return None
    return shape


def _kind(value: Any) -> Any:
    """Returns the properties that determine the dtype of an elementwise result."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.ndim == 0
    return type(value) if isinstance(value, (bool, int, float)) else value


def _without_device(target: OpOverload, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns keyword arguments without those that only say that a tensor is an ordinary one on the CPU."""
    if target not in _STATIC:
        return dict(kwargs)
    ordinary = {"device": (None, _CPU), "layout": (None, torch.strided), "pin_memory": (None, False)}
    return {name: value for name, value in kwargs.items() if value not in ordinary.get(name, ())}


def estimated(mode: FakeTensorMode, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Returns tensors with, in general, dtypes and shapes of the result of a call; None if unknown.

    Runs the operator's kernel for meta tensors also if the mode has a rule for the operator.

    Args:
        mode: as for `computed`, like the other arguments.
        target: an operator, or another function.
        args: its arguments.
        kwargs: its keyword arguments.
    """
    if not isinstance(target, OpOverload) or not _has_kernel(target):
        return None
    if not _are_static((*args, *kwargs.values())):
        return None
    try:
        if target in _RESIZED:
            return _resized(mode, _RESIZED[target], *args)
        of = _of_elements if torch.Tag.pointwise in target.tags else _of_kernel
        return of(mode, target, args, kwargs)
    except Exception:  # noqa: BLE001 - of any kernel
        return None


# Operators that resize all dimensions but the first two -> their number. Torch decomposes them to infer it.
_RESIZED: Final = {
    aten.upsample_bicubic2d.vec: 2,
    aten.upsample_bilinear2d.vec: 2,
    aten.upsample_linear1d.vec: 1,
    aten.upsample_nearest1d.vec: 1,
    aten.upsample_nearest2d.vec: 2,
    aten.upsample_nearest3d.vec: 3,
    aten.upsample_trilinear3d.vec: 3,
}


def _resized(
    mode: FakeTensorMode, count: int, x: FakeTensor, sizes: Sequence[int] | None, *others: Any
) -> torch.Tensor | None:
    """Returns the result of a resizing operator; None for invalid arguments."""
    scales = others[-1]
    spatial = x.shape[2:]
    if sizes is None:
        sizes = [int(size * scale) for size, scale in zip(spatial, scales, strict=True)]
    if not len(sizes) == len(spatial) == count or min(*x.shape, *sizes) < 1 or not x.dtype.is_floating_point:
        return None
    with in_kernel_invocation_manager(mode):
        return torch.empty((*x.shape[:2], *sizes), dtype=x.dtype, device=_META)


def _of_kernel(
    mode: FakeTensorMode, target: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    with in_kernel_invocation_manager(mode):
        return target(*args, **kwargs)


@cache
def _has_kernel(target: OpOverload) -> bool:
    return target.namespace == "aten" and not target._schema.is_mutable and has_meta(target)


@cache
def _is_direct(target: OpOverload) -> bool:
    """Whether the mode runs the kernel for meta tensors, without special rules."""
    is_decomposed = (
        target not in meta_table
        and torch.Tag.view_copy not in target.tags
        and target not in FakeTensorMode._cpp_meta_supports_symint
        and (
            (target in decomposition_table and fake_tensor.torch_decomp_decompositions(target))
            or target._can_decompose()
        )
    )
    return (
        _has_kernel(target)
        and not is_decomposed
        and (target in _STATIC or not any(applies(target) for applies, _ in op_implementations_checks))
    )


def _are_static(values: Sequence[Any], operands: bool = True) -> bool:
    """Whether values are tensors on the CPU with static shapes and unknown contents, and scalars.

    Args:
        values: arguments of a call.
        operands: whether at least one must be a tensor.
    """
    tensors = 0
    for value in values:
        if isinstance(value, (list, tuple)):
            if not all(type(each) in _CONSTANT_TYPES for each in value) and not _are_static(value):
                return False
            tensors += any(isinstance(each, torch.Tensor) for each in value)
        elif type(value) is FakeTensor:
            if value._has_symbolic_sizes_strides or value.constant is not None or value.fake_device != _CPU:
                return False
            tensors += 1
        elif type(value) not in _CONSTANT_TYPES:
            return False
    return tensors > 0 or not operands


def _on_cpu(mode: FakeTensorMode, result: Any) -> Any:
    if isinstance(result, (tuple, list)):
        return type(result)(_on_cpu(mode, each) for each in result)
    if isinstance(result, torch.Tensor) and type(result) is not FakeTensor:
        return FakeTensor(mode, result, _CPU)
    return result
