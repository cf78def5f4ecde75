# SPDX-License-Identifier: Apache-2.0
"""Reductions: sums, means, extremes and their positions, variance. They accumulate in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch

from delegatec.backends.vulkan.reference.call import Call, same_packed
from delegatec.backends.vulkan.reference.run import Run, Semantics, kernel_name
from delegatec.backends.vulkan.reference.tensors import CHANNELS, Tensor, reject

Value = torch.Tensor
_MOST: Final = 4
_GROUPS: Final = 4
_FLOAT16_MAX: Final = 65504


def check_barriers(
    run: Run,
    call: Call,
    extents: list[int],
    bounds: list[int],
    axes: tuple[int, ...],
) -> None:
    """Checks that no invocation of a workgroup returns before a barrier.

    A workgroup has four invocations along the reduced axis, and four along another one, where those beyond
    the image return first.

    Args:
        run: the state.
        call: the operator.
        extents: of the dispatch, along axes that are not reduced.
        bounds: the extents at which invocations return.
        axes: the reduced axes: 0 is the width.
    """
    first, second = (axes[0] + 1) % 3, (axes[0] + 2) % 3
    group = first if extents[first] > extents[second] else second
    reached = -(-extents[group] // _GROUPS) * _GROUPS
    run.unspecified.choose(
        "barriers",
        lambda: reached > bounds[group],
        f"{call.name} of {extents[group]} texels in workgroups of {_GROUPS}",
    )


def _check_batch(call: Call, x: Tensor, axes: tuple[int, ...]) -> None:
    if x.dim == _MOST and x.sizes[0] > 1 and CHANNELS in axes:
        reject(f"{call.name} of {x} along channels, which have several images")
    if any(axis > CHANNELS for axis in axes):
        reject(f"{call.name} of {x} along the batch; it supports the last three dimensions")


def _kept(out: Tensor, x: Tensor, axes: list[int]) -> list[int]:
    """Returns the shape with ones for reduced dimensions; others if the result has fewer dimensions."""
    kept = [1 if axis in axes else size for axis, size in enumerate(x.sizes)]
    if out.dim == x.dim:
        return kept
    return [size for axis, size in enumerate(kept) if axis not in axes]


_REDUCTIONS: Final[dict[str, Callable[[Value, list[int]], Value]]] = {
    "sum": lambda x, axes: x.sum(axes, keepdim=True),
    "mean": lambda x, axes: x.mean(axes, keepdim=True),
    "amax": lambda x, axes: x.amax(axes, keepdim=True),
    "amin": lambda x, axes: x.amin(axes, keepdim=True),
}


def _reduction(name: str, result: int) -> Semantics:
    def semantics(run: Run, call: Call) -> None:
        x, out = call.tensor(0), call.tensor(result)
        if not call.is_none(1):
            dims = call.ints(1)
        elif x.dim == 1:
            dims = [-1]
        else:
            reject(f"{call.name} of {x} over all dimensions")
        for dim in dims:
            if not -x.dim <= dim < x.dim:
                reject(f"{call.name} of {x} along dimension {dim}")
        axes = [dim % x.dim for dim in dims]
        if dims in ([-1], [x.dim - 1]) and x.is_buffer:
            return _per_row(run, call, x, out, name, 2)
        if x.is_buffer or out.is_buffer:
            reject(f"{call.name} of {x} to {out}; both must be textures")
        if len(axes) == 1:
            _one_axis(run, call, x, out, axes[0], name)
        elif len(axes) == 2 and axes[0] != axes[1]:
            _two_axes(run, call, x, out, axes, name)
        else:
            reject(f"{call.name} along the dimensions {dims}; the runtime supports one or two")
        value = _REDUCTIONS[name](run.read(x).float(), axes)
        run.write(out, value if out.dim == x.dim else value.reshape(_kept(out, x, axes)))

    return semantics


def _one_axis(run: Run, call: Call, x: Tensor, out: Tensor, axis: int, name: str) -> None:
    whcn = x.dim - 1 - axis
    _check_batch(call, x, (whcn,))
    run.kernel(f"{name}_{out.shader_dtype}", out, x)
    same_packed(call.name, x, out)
    extents = [1 if index == whcn else size for index, size in enumerate(x.limits)]
    check_barriers(run, call, out.limits, extents, (whcn,))
    if out.dim != x.dim:
        # Results keep their texels, which lie as in a tensor with all dimensions.
        _check_removed(call, x, out, [axis])


def _check_removed(call: Call, x: Tensor, out: Tensor, axes: list[int]) -> None:
    kept = Tensor(
        -1, out.dtype, [1 if a in axes else s for a, s in enumerate(x.sizes)], out.storage, out.layout
    )
    if kept.whcn != out.whcn:
        reject(f"{call.name} of {x} to {out} without the reduced dimension")


def _two_axes(run: Run, call: Call, x: Tensor, out: Tensor, axes: list[int], name: str) -> None:
    whcn = tuple(x.dim - 1 - axis for axis in axes)
    if x.packed in whcn or out.packed in whcn:
        reject(f"{call.name} of {x} along the dimension that it packs")
    _check_batch(call, x, whcn)
    run.kernel(f"{name}2d_{out.shader_dtype}", out, x)
    same_packed(call.name, x, out)
    # Invocations along the second axis compute the same as the first, and none returns.
    if out.dim != x.dim:
        _check_removed(call, x, out, axes)


def _per_row(run: Run, call: Call, x: Tensor, out: Tensor, name: str, keep: int) -> None:
    run.kernel("_".join([name + "_per_row", x.storage, x.shader_dtype]), out, x)
    value = run.read(x)
    if name in _REDUCTIONS:
        value = value if value.dtype == torch.int32 and name != "mean" else value.float()
        # This shader's test for float16 holds for every type.
        reduced = _REDUCTIONS[name](value, [-1]).clamp(-_FLOAT16_MAX, _FLOAT16_MAX)
    else:
        reduced = (torch.argmax if name == "argmax" else torch.argmin)(value, -1, keepdim=True)
    if run.dynamic:
        keeps = bool(call.scalar(keep))
    else:
        keeps = out.dim == x.dim
        if out.numel != reduced.numel():
            reject(f"{call.name} of {x} to {out}")
    run.write(out, reduced if keeps else reduced[..., 0])


def _position(name: str) -> Semantics:
    def semantics(run: Run, call: Call) -> None:
        x, out = call.tensor(0), call.tensor(3)
        if not x.is_buffer:
            reject(f"{call.name} of {x}, which must be a buffer")
        dim = 0 if call.is_none(1) else call.integer(1)
        if dim % max(x.dim, 1) != x.dim - 1:
            reject(f"{call.name} of {x} along dimension {dim}, which must be the last")
        _per_row(run, call, x, out, name, 2)

    return semantics


def _variance(run: Run, call: Call) -> None:
    x, out = call.tensor(0), call.tensor(4)
    dims = call.int_list(1)
    if len(dims) != 1 or not -x.dim <= dims[0] < x.dim:
        reject(f"{call.name} of {x} along the dimensions {dims}; the runtime supports one")
    axis = dims[0] % x.dim
    whcn = x.dim - 1 - axis
    _check_batch(call, x, (whcn,))
    run.kernel(kernel_name("var", out), out, x)
    if x.is_buffer and x.dim > _MOST:
        reject(f"{call.name} of {x}, a buffer of more than {_MOST} dimensions")
    if not x.is_buffer:
        same_packed(call.name, x, out)
        bounds = [1 if index == whcn else size for index, size in enumerate(x.limits)]
        check_barriers(run, call, out.limits, bounds, (whcn,))
    if out.dim != x.dim:
        _check_removed(call, x, out, [axis])
    value = run.read(x).float()
    count = x.sizes[axis]
    mean = value.mean(axis, keepdim=True)
    variance = value.square().mean(axis, keepdim=True) - mean.square()
    if call.boolean(2) and count > 1:
        variance = variance * (count / (count - 1))
    run.write(out, variance.reshape(_kept(out, x, [axis])))


SEMANTICS: Final[dict[str, Semantics]] = {
    "aten.sum.dim_IntList": _reduction("sum", 4),
    "aten.mean.dim": _reduction("mean", 4),
    "aten.amax.default": _reduction("amax", 3),
    "aten.amin.default": _reduction("amin", 3),
    "aten.argmax.default": _position("argmax"),
    "aten.argmin.default": _position("argmin"),
    "aten.var.dim": _variance,
}
