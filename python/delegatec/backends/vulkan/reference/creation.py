# SPDX-License-Identifier: Apache-2.0
"""Tensor creation, padding, and integers computed from shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import torch
from delegatec_schemas.vulkan_graph import BoolT, DoubleT, IntT, SymIntT

from delegatec.backends.vulkan.reference.call import Call, must_pack, same_packed
from delegatec.backends.vulkan.reference.elementwise import to_integers
from delegatec.backends.vulkan.reference.run import Run, Semantics, kernel_name
from delegatec.backends.vulkan.reference.tensors import CHANNELS, Tensor, reject

_MOST: Final = 4


def _rounded_scalar(run: Run, call: Call, value: float, out: Tensor) -> torch.Tensor:
    """Returns a float in the dtype of a result."""
    if out.dtype == torch.bool and value not in (0.0, 1.0):
        reject(f"{call.name} of {value:g} for {out}: bools are zero or one")
    filler = torch.tensor(value, dtype=torch.float32)
    return filler if out.dtype.is_floating_point else to_integers(run, filler, call.name)


def _full(fill: float | None) -> Semantics:
    def semantics(run: Run, call: Call) -> None:
        out = call.tensor(len(call) - 1)
        run.kernel(kernel_name("full", out), out)
        value = _rounded_scalar(run, call, call.float32(1) if fill is None else fill, out)
        shape = out.sizes
        if run.dynamic:
            like = call.content(0)
            shape = like.sizes if isinstance(like, Tensor) else call.ints(0)
        run.write(out, value.expand(shape))

    return semantics


def _arange(run: Run, call: Call) -> None:
    out = call.tensor(7)
    for argument in (0, 1, 2):
        if not isinstance(call.content(argument), IntT | DoubleT | BoolT | SymIntT) and not (
            argument != 1 and call.is_none(argument)
        ):
            reject(f"{call.name} with the argument {argument}, which is not a scalar")
    start = 0.0 if call.is_none(0) else call.float32(0)
    step = 1.0 if call.is_none(2) else call.float32(2)
    run.kernel(kernel_name("arange", out), out)
    count = out.sizes[0] if out.dim == 1 else -1
    if run.dynamic:
        first, last = int(start), call.integer(1)
        count = -(-(last - first) // max(int(step), 1))
    if count < 0:
        reject(f"{call.name} to {out}")
    value = start + torch.arange(count, dtype=torch.float32) * step
    run.write(out, value if out.dtype.is_floating_point else to_integers(run, value, call.name))


def _scalar_tensor(run: Run, call: Call) -> None:
    out, scalar = call.tensor(len(call) - 1), call.content(0)
    if not isinstance(scalar, DoubleT):
        # For an Int, the shader takes the bits of a float for an integer; there is none for a Bool.
        reject(f"{call.name} of an argument that is not Double")
    run.kernel("_".join(["scalar_tensor", out.shader_dtype, out.storage, "float"]), out)
    if out.numel != 1:
        reject(f"{call.name} to {out}")
    run.write(out, _rounded_scalar(run, call, call.float32(0), out).reshape(out.sizes), resizes=False)


def _pad(run: Run, call: Call) -> None:
    x, pad, out = call.tensor(0), call.int_list(1), call.tensor(3)
    fill = call.float32(2)
    run.kernel(kernel_name("pad", out), out, x)
    if not out.is_buffer:
        same_packed(call.name, x, out)
    if len(pad) % 2 or len(pad) > 2 * min(x.dim, _MOST):
        reject(f"{call.name} of {x} by {pad}")
    value = run.read(x)
    for axis, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        if before < 0 or after < -value.shape[-1 - axis]:
            reject(f"{call.name} of {x} by {pad}")
    filler = fill if out.dtype.is_floating_point else math.trunc(fill)
    run.write(out, torch.nn.functional.pad(value, pad, value=filler))


def _grid_priors(run: Run, call: Call) -> None:
    x, stride, offset, out = call.tensor(0), call.integer(1), call.float32(2), call.tensor(3)
    run.kernel(f"grid_priors_{out.shader_dtype}", out)
    must_pack(call.name, CHANNELS, out)
    height, width = x.sizes[-2:]
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    value = torch.stack([columns.flatten(), rows.flatten()], 1).float()
    run.write(out, (value + offset) * stride)


# ---- scalars ----


def _set(run: Run, call: Call, argument: int, value: int) -> None:
    id = call.id(argument)
    if not isinstance(run.values[id], SymIntT):
        reject(f"argument {argument} of {call.name} is value {id}, which is not a SymInt")
    run.set_symbol(id, value)


def _integer(run: Run, call: Call, argument: int) -> int:
    if not isinstance(call.content(argument), IntT | SymIntT):
        reject(f"argument {argument} of {call.name} is neither Int nor SymInt")
    return call.integer(argument)


def _size(run: Run, call: Call) -> None:
    sizes, dim = call.sizes(0), call.integer(1)
    if not -len(sizes) <= dim < len(sizes):
        reject(f"{call.name} of dimension {dim} of the shape {sizes}")
    _set(run, call, 2, sizes[dim])


def _arithmetic(function: Callable[[int, int], int]) -> Semantics:
    def semantics(run: Run, call: Call) -> None:
        left, right = _integer(run, call, 0), _integer(run, call, 1)
        if function is _floor and not right:
            reject(f"{call.name} of {left} by zero")
        _set(run, call, 2, function(left, right))

    return semantics


def _floor(left: int, right: int) -> int:
    return left // right


def _select_scalar(run: Run, call: Call) -> None:
    """Reads an element of an input that the caller passed; shapes are recomputed in every run."""
    x = call.tensor(0)
    dim, index = call.integer(1), call.integer(2)
    staged = run.staged.get(x.id)
    if staged is None:
        reject(f"{call.name} of {x}, which is not an input")
    if staged.dtype not in (torch.int32, torch.int64) or x.dim != 1 or dim not in (0, -1):
        reject(f"{call.name} of {x} along dimension {dim}; it must be int32, and have one dimension")
    if not -x.sizes[0] <= index < x.sizes[0]:
        reject(f"{call.name} of element {index} of {x}")
    _set(run, call, 3, int(staged[index]))


SCALARS: Final[dict[str, Semantics]] = {
    "sym_size.int": _size,
    "add": _arithmetic(lambda left, right: left + right),
    "sub": _arithmetic(lambda left, right: left - right),
    "mul": _arithmetic(lambda left, right: left * right),
    "floordiv": _arithmetic(_floor),
}
"""Integers computed from sizes."""

SEMANTICS: Final[dict[str, Semantics]] = {
    **{f"aten.{name}.default": _full(None) for name in ("full", "full_like")},
    **{f"aten.{name}.default": _full(0.0) for name in ("zeros", "zeros_like")},
    **{f"aten.{name}.default": _full(1.0) for name in ("ones", "ones_like")},
    "aten.arange.start_step": _arange,
    "aten.scalar_tensor.default": _scalar_tensor,
    "aten.constant_pad_nd.default": _pad,
    "et_vk.grid_priors.default": _grid_priors,
    **SCALARS,
    "et_vk.select_as_symint.default": _select_scalar,
}
