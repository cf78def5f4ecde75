# SPDX-License-Identifier: Apache-2.0
"""Products, convolutions and normalization. Statistics are computed in float32."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch.nn import functional as f

from delegatec.backends.mlx.reference.run import Run, Semantics, axis_of, floating, promoted, reject

Tensor = torch.Tensor


def _addmm(run: Run, node: Any) -> None:
    first, second = promoted(run[node.mat1], run[node.mat2])
    if not first.dtype.is_floating_point:
        reject(f"a product of {first.dtype}")
    product, bias = first @ second, run.optional(node.bias)
    if bias is not None:
        product = product if node.alpha == 1 else product * node.alpha
        product = product + (bias if node.beta == 1 else bias * node.beta).to(product.dtype)
    run[node.out] = product


def _gather_mm(run: Run, node: Any) -> None:
    first, second = promoted(run[node.a], run[node.b])
    if not first.dtype.is_floating_point or min(first.dim(), second.dim()) < 2:
        reject(f"a GatherMm of {first.dtype}, of {first.dim()} and {second.dim()} dimensions")
    lhs = matrix_indices(first, run.optional(node.lhsIndices))
    rhs = matrix_indices(second, run.optional(node.rhsIndices))
    lhs, rhs = torch.broadcast_tensors(lhs, rhs)  # type: ignore[no-untyped-call]
    run.check_size((*lhs.shape, max(first.shape[-2:]), max(second.shape[-2:])))
    run[node.out] = first.flatten(0, -3)[lhs] @ second.flatten(0, -3)[rhs]


def matrix_indices(x: Tensor, given: Tensor | None) -> Tensor:
    """Returns the indices of matrices in their batch; the runtime does not check them."""
    count = math.prod(x.shape[:-2])
    if given is None:
        return torch.arange(count, device=x.device).view(x.shape[:-2])
    if not given.is_meta and bool(((given < 0) | (given >= count)).any()):
        reject(f"indices beyond {count} matrices")
    return given.long()


def _each(node: Any, name: str, spatial: int) -> list[int]:
    letters = [""] if spatial == 1 else "DHW"[-spatial:]
    return [getattr(node, f"{name}{letter}") for letter in letters]


def _channels_first(x: Tensor) -> Tensor:
    return x.movedim(-1, 1)


_CONVOLUTIONS: Final = {1: f.conv1d, 2: f.conv2d, 3: f.conv3d}
_TRANSPOSED: Final = {1: f.conv_transpose1d, 2: f.conv_transpose2d, 3: f.conv_transpose3d}


def _convolution(spatial: int) -> Semantics:
    def run(run: Run, node: Any) -> None:
        x, weight = promoted(run[node.x], run[node.w])
        stride, padding, dilation = (_each(node, name, spatial) for name in ("stride", "padding", "dilation"))
        found = _CONVOLUTIONS[spatial](
            _channels_first(x), _channels_first(weight), None, stride, padding, dilation, node.groups
        )
        run[node.out] = found.movedim(1, -1)

    return run


def _transposed(spatial: int) -> Semantics:
    def run(run: Run, node: Any) -> None:
        x, weight = promoted(run[node.x], run[node.w])
        stride, padding, dilation, added = (
            _each(node, name, spatial) for name in ("stride", "padding", "dilation", "outputPadding")
        )
        # [O, ..., C / groups] as [C, O / groups, ...]
        outputs, inputs = weight.shape[0] // node.groups, weight.shape[-1]
        kernel = weight.reshape(node.groups, outputs, *weight.shape[1:-1], inputs)
        kernel = kernel.movedim(-1, 1).flatten(0, 1)
        found = _TRANSPOSED[spatial](
            _channels_first(x), kernel, None, stride, padding, added, node.groups, dilation
        )
        run[node.out] = found.movedim(1, -1)

    return run


def _rms_norm(run: Run, node: Any) -> None:
    x, weight = run[node.x], run.optional(node.weight)
    wide = x.float()
    found = (wide * (wide.square().mean(-1, keepdim=True) + node.eps).rsqrt()).to(x.dtype)
    run[node.out] = found if weight is None else torch.mul(*promoted(found, weight))


def _layer_norm(run: Run, node: Any) -> None:
    x = run[node.x]
    weight, bias = run.optional(node.weight), run.optional(node.bias)
    scale, shift = (None if each is None else each.float() for each in (weight, bias))
    run[node.out] = f.layer_norm(x.float(), x.shape[-1:], scale, shift, node.eps).to(x.dtype)


def _softmax(run: Run, node: Any) -> None:
    x = floating(run[node.x])
    axis = axis_of(node.axis, x.dim())
    run[node.out] = (x.float() if node.precise else x).softmax(axis).to(x.dtype)


def _rope(run: Run, node: Any) -> None:
    """Positions are those of the last but one dimension, from the offset on."""
    x, offset, freqs = run[node.x], run.position(node.offset), run.optional(node.freqs)
    half = node.dims // 2
    if node.dims % 2 or not 0 < node.dims <= x.shape[-1]:
        reject(f"a rotation of {node.dims} of {x.shape[-1]} elements")
    steps = torch.arange(x.shape[-2], device=x.device)
    if isinstance(offset, Tensor):
        positions = steps + offset.reshape(-1, *[1] * (x.dim() - 2)) if offset.dim() else steps + offset
    else:
        positions = steps + offset
    periods = node.base ** (torch.arange(half, device=x.device) / half) if freqs is None else freqs.float()
    angle = (positions.float() * node.scale).unsqueeze(-1) / periods
    cos, sin = angle.cos(), angle.sin()
    rotated, rest = x[..., : node.dims].float(), x[..., node.dims :]
    if node.traditional:
        first, second = rotated[..., ::2], rotated[..., 1::2]
    else:
        first, second = rotated[..., :half], rotated[..., half:]
    pair = (first * cos - second * sin, first * sin + second * cos)
    found = torch.stack(pair, -1).flatten(-2) if node.traditional else torch.cat(pair, -1)
    run[node.out] = torch.cat([found.to(x.dtype), rest], -1)


SEMANTICS: Final[dict[str, Semantics]] = {
    "Addmm": _addmm,
    **{f"Conv{spatial}d": _convolution(spatial) for spatial in _CONVOLUTIONS},
    **{f"ConvTranspose{spatial}d": _transposed(spatial) for spatial in _TRANSPOSED},
    "GatherMm": _gather_mm,
    "LayerNorm": _layer_norm,
    "RmsNorm": _rms_norm,
    "Rope": _rope,
    "Softmax": _softmax,
}
