# SPDX-License-Identifier: Apache-2.0
"""Pooling, upsampling and sampling of images in textures that pack channels."""

from __future__ import annotations

import math
from typing import Final

import torch
from delegatec_schemas.vulkan_graph import BoolT
from torch.nn import functional

from delegatec.backends.vulkan.reference.call import Call, must_pack
from delegatec.backends.vulkan.reference.elementwise import wide
from delegatec.backends.vulkan.reference.run import Run, Semantics, kernel_name
from delegatec.backends.vulkan.reference.tensors import BUFFER, CHANNELS, WIDTH, Tensor, reject

_LOWEST: Final = -3.402823466e38
_IMAGE: Final = 4
Pair = tuple[int, int]
Sizes = tuple[Pair, Pair, Pair, Pair]


def _pair(call: Call, position: int) -> Pair:
    items = call.int_list(position)
    if len(items) != 2:
        reject(f"{call.name} with the list {items}, which must have two integers")
    return items[0], items[1]


def _count(size: int, window: Pair, step: int, up: bool) -> int:
    """Returns the number of windows along an axis.

    Args:
        size: of the operand.
        window: extent of a window, and padding at both ends.
        step: stride between windows.
        up: whether to count a partial window.
    """
    extent, padding = window
    count = (size + 2 * padding - extent + (step - 1 if up else 0)) // step + 1
    if up and (count - 1) * step >= size + padding:
        count -= 1
    return count


def _windows(run: Run, call: Call, x: Tensor, out: Tensor, sizes: Sizes, up: bool) -> list[int]:
    """Returns the height and width of the result."""
    kernel, stride, padding, dilation = sizes
    if min(*kernel, *stride, *dilation) < 1 or min(padding) < 0:
        reject(f"{call.name} of windows {kernel} by {stride}")
    if x.dim not in (_IMAGE - 1, _IMAGE) or out.dim != x.dim:
        reject(f"{call.name} of {x} to {out}")
    counts = [
        _count(size, (d * (k - 1) + 1, p), s, up)
        for size, k, s, p, d in zip(x.sizes[-2:], kernel, stride, padding, dilation, strict=True)
    ]
    if min(counts) < 1:
        reject(f"{call.name} of {x} has an empty result")
    if not run.dynamic and counts != out.sizes[-2:]:
        reject(f"{call.name} of {x} to {out}, and not to {counts}")
    return counts


def _padded(value: torch.Tensor, counts: list[int], sizes: Sizes, border: float) -> torch.Tensor:
    """Returns patches: (..., windows, elements of a window), with a border."""
    kernel, stride, padding, dilation = sizes
    ends: list[int] = [
        max((n - 1) * s + d * (k - 1) + 1 - size - p, 0)
        for n, s, d, k, size, p in zip(
            counts, stride, dilation, kernel, value.shape[-2:], padding, strict=True
        )
    ]
    padded = functional.pad(value, (padding[1], ends[1], padding[0], ends[0]), value=border)
    for axis, (n, k, s, d) in enumerate(zip(counts, kernel, stride, dilation, strict=True)):
        starts = torch.arange(n)[:, None] * s + torch.arange(k)[None, :] * d
        position = value.dim() - 2 + 2 * axis
        padded = torch.unflatten(padded.index_select(position, starts.flatten()), position, (n, k))
    # (..., height, kernel height, width, kernel width)
    return padded.transpose(-3, -2).flatten(-2)


def _max_pool(run: Run, call: Call) -> None:
    x = call.tensor(0)
    listed = not isinstance(call.content(6), Tensor)
    results = call.tensors(6) if listed else [call.tensor(6)]
    out, positions = results[0], results[1] if len(results) > 1 else None
    must_pack(call.name, CHANNELS, x, out)
    run.kernel(f"max_pool2d_{out.shader_dtype}", out, positions, x)
    sizes = (_pair(call, 1), _pair(call, 2), _pair(call, 3), _pair(call, 4))
    up = isinstance(call.content(5), BoolT) and call.boolean(5)
    counts = _windows(run, call, x, out, sizes, up)
    value = run.read(x).float()
    missing = value.isnan()
    choice = run.unspecified.choose("nan", lambda: missing, "max pooling of NaN")
    if choice == "other":
        value = torch.where(missing, -math.inf, value)
    patches = _padded(value, counts, sizes, _LOWEST).clamp(min=_LOWEST)
    run.write(out, patches.amax(-1))
    out.carry_pad(x)
    if positions is not None:
        must_pack(call.name, CHANNELS, positions)
        height, width = x.sizes[-2:]
        grid = torch.arange(height * width, dtype=torch.float64).reshape(1, height, width)
        indices = _padded(grid, counts, sizes, 0.0)
        first = (patches == patches.amax(-1, keepdim=True)).to(torch.int8).argmax(-1, keepdim=True)
        run.write(positions, indices.expand(patches.shape).gather(-1, first)[..., 0].to(torch.int32))


def _avg_pool(run: Run, call: Call) -> None:
    x, out = call.tensor(0), call.tensor(7)
    must_pack(call.name, CHANNELS, x, out)
    run.kernel(f"avg_pool2d_{out.shader_dtype}", out, x)
    kernel, stride, padding = _pair(call, 1), _pair(call, 2), _pair(call, 3)
    sizes = (kernel, stride, padding, (1, 1))
    counts = _windows(run, call, x, out, sizes, call.boolean(4))
    total = _padded(run.read(x).float(), counts, sizes, 0.0).sum(-1)
    override = 0 if call.is_none(6) else call.strict_int(6)
    if override > 0:
        divisor = torch.tensor(float(override))
    else:
        lengths = []
        for n, k, s, p, size in zip(counts, kernel, stride, padding, x.sizes[-2:], strict=True):
            start = torch.arange(n) * s - p
            inside = (start + k).clamp(max=size) - start.clamp(min=0)
            lengths.append(k - (start + k - p - size).clamp(min=0) if call.boolean(5) else inside)
        divisor = (lengths[0][:, None] * lengths[1][None, :]).float()
    run.write(out, total / divisor)
    out.carry_pad(x)


def _upsample(name: str, corners: int | None, scales: int) -> Semantics:
    def semantics(run: Run, call: Call) -> None:
        x, out = call.tensor(0), call.tensor(scales + 1)
        if call.is_none(1) == call.is_none(scales):
            reject(f"{call.name} needs either sizes or scales")
        aligned = corners is not None and call.boolean(corners)
        run.kernel(f"{name}_{out.shader_dtype}", out, x)
        must_pack(call.name, CHANNELS, x, out)
        height, width = out.sizes[-2:]
        if run.dynamic:
            height, width = _resized(call, x, out, aligned, scales)
        elif call.is_none(1):
            factors = call.double_list(scales)
            wanted = [size * factor for size, factor in zip(x.sizes[-2:], factors, strict=True)]
        else:
            wanted = [float(size) for size in call.int_list(1)]
        if not run.dynamic and (wanted != [height, width] or x.sizes[:-2] != out.sizes[:-2]):
            reject(f"{call.name} of {x} to {out}, and not to {wanted}")
        value = wide(run.read(x))
        for axis in (-2, -1):
            value = _resample(run, call, value, axis, ((height, width)[axis], aligned, "nearest" in name))
        run.write(out, value)
        out.carry_pad(x)

    return semantics


def _resized(call: Call, x: Tensor, out: Tensor, aligned: bool, scales: int) -> list[int]:
    """Returns the size of an image; the runtime keeps the ratio of the largest sizes."""
    if call.is_none(1):
        sizes = [int(n * scale) for n, scale in zip(x.sizes[-2:], call.double_list(scales), strict=True)]
    else:
        sizes = call.int_list(1)
    for axis, size in ((-2, sizes[0]), (-1, sizes[1])):
        old, new, first, last = (
            n - aligned for n in (x.sizes[axis], size, x.largest[axis], out.largest[axis])
        )
        if old * last != first * new:
            reject(
                f"{call.name} of {x} to {sizes}: the runtime keeps the scale of {x.largest} to {out.largest}"
            )
    return sizes


def _resample(run: Run, call: Call, x: torch.Tensor, axis: int, to: tuple[int, bool, bool]) -> torch.Tensor:
    size, aligned, nearest = to
    old = x.shape[axis]
    position = torch.arange(size, dtype=torch.float32)
    if aligned:
        position = position * ((old - 1) / (size - 1)) if size > 1 else position * math.nan
        if size == 1:
            reject(f"{call.name} with aligned corners to one element")
    else:
        position = (position + 0.5) * (old / size) - 0.5
    if nearest:
        ties = (position - position.floor()) == 0.5
        choice = run.unspecified.choose("rounding", lambda: ties, f"{call.name} between two elements")
        if choice == "away":
            position = torch.where(ties, position + 0.5 * position.sign(), position)
        return x.index_select(axis, position.round().long().clamp(0, old - 1))
    low, high = position.floor().clamp(0, old - 1), position.ceil().clamp(0, old - 1)
    weight = (position - low).reshape([-1] + [1] * (-1 - axis))
    first, second = (x.index_select(axis, ends.long()) for ends in (low, high))
    return first * (1 - weight) + second * weight


def _grid_sampler(run: Run, call: Call) -> None:
    x, grid, out = call.tensor(0), call.tensor(1), call.tensor(5)
    mode, padding, aligned = call.integer(2), call.integer(3), call.boolean(4)
    if (mode, padding, aligned) != (0, 1, True):
        reject(f"{call.name} in mode {mode}, with padding {padding}, aligned {aligned}")
    for tensor in (x, out):
        if tensor.is_buffer or tensor.packed != CHANNELS:
            reject(f"{call.name} of {tensor}, which must be a texture that packs channels")
    if grid.storage != BUFFER or grid.packed != WIDTH or grid.dtype != out.dtype:
        reject(f"{call.name} at {grid}, which must be a row-major buffer of the result's dtype")
    run.kernel(f"grid_sampler_2d_{out.shader_dtype}", out, x, grid)
    value, positions = wide(run.read(x)), wide(run.read(grid))
    run.write(out, functional.grid_sample(value, positions, "bilinear", "border", True))
    out.carry_pad(x)


def _pixel_shuffle(run: Run, call: Call) -> None:
    x, factor, out = call.tensor(0), call.integer(1), call.tensor(2)
    if factor < 1 or x.dim < _IMAGE - 1 or x.sizes[-3] % factor**2:
        reject(f"{call.name} of {x} by {factor}")
    run.kernel(kernel_name("pixel_shuffle", out), out, x)
    run.write(out, functional.pixel_shuffle(run.read(x), factor))


SEMANTICS: Final[dict[str, Semantics]] = {
    "aten.max_pool2d.default": _max_pool,
    "aten.max_pool2d_with_indices.default": _max_pool,
    "aten.avg_pool2d.default": _avg_pool,
    "aten.upsample_nearest2d.vec": _upsample("upsample_nearest2d", None, 2),
    "aten.upsample_bilinear2d.vec": _upsample("upsample_bilinear2d", 2, 3),
    "aten.grid_sampler_2d.default": _grid_sampler,
    "aten.pixel_shuffle.default": _pixel_shuffle,
}
