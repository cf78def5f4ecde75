# SPDX-License-Identifier: Apache-2.0
"""Matrix products, accumulated in float32 (by the runtime in float16, for buffers of it)."""

from __future__ import annotations

import math
from typing import Final

import torch
from delegatec_schemas.vulkan_graph import MemoryLayout

from delegatec.backends.vulkan.reference.call import Call, must_pack, summed
from delegatec.backends.vulkan.reference.elementwise import wide
from delegatec.backends.vulkan.reference.run import Run, Semantics
from delegatec.backends.vulkan.reference.tensors import (
    BUFFER,
    TEXTURE_2D,
    WIDTH,
    Constant,
    Tensor,
    reject,
)

_MOST: Final = 3
# Tiles of fewer rows are used until there are that many of them.
_THREADS: Final = 4096


def _tile_suffix(out: Tensor) -> str:
    """Returns the part of a shader's name for the rows per tile."""
    width, height, channels, _ = out.whcn
    groups = -(-width // 4)
    for rows, name in ((4, ""), (2, "_tile_row_2")):
        if groups * -(-height // rows) * (channels if out.dim >= 3 else 1) >= _THREADS:
            return name
    return "_tile_row_1"


def _base(kind: str, out: Tensor, inner: int, bias: bool) -> str:
    scalar = out.is_buffer and (inner % 4 or out.sizes[-1] % 4)
    return kind + ("" if scalar else "_vec") + ("_bias" if bias else "") + _tile_suffix(out)


def pack_weight(run: Run, weight: Constant, matrix: torch.Tensor, batch: int = 1) -> Tensor:
    """Returns a packed weight, in an image if it fits.

    Args:
        run: the state.
        weight: the constant.
        matrix: its elements, with the rows over which products are summed.
        batch: the number of matrices.
    """
    rows, columns = matrix.shape[-2:]
    fits = 4 * -(-columns // 4) <= run.limits.plane and batch * -(-rows // 4) <= run.limits.plane
    storage = TEXTURE_2D if fits else BUFFER
    packed = Tensor(-1, weight.dtype, list(matrix.shape), storage, MemoryLayout.WIDTH_PACKED)
    run.kernel(f"pack_fp_linear_weight_{storage}_{packed.shader_dtype}_{packed.shader_dtype}")
    packed.value = matrix
    return packed


def _with_weight(
    run: Run,
    call: Call,
    operands: tuple[Tensor, Constant, Tensor],
    bias: Tensor | None,
    *,
    transposed: bool,
    scales: tuple[float, float] = (1.0, 1.0),
) -> None:
    x, weight, out = operands
    must_pack(call.name, WIDTH, x, out)
    if len(weight.sizes) not in (2, 3):
        reject(f"{call.name} with a weight of the shape {weight.sizes}")
    matrix = weight.value.transpose(-1, -2) if transposed else weight.value
    if run.dynamic:
        run.resize(out, [*x.sizes[:-1], matrix.shape[-1]])
    batch = weight.sizes[0] if len(weight.sizes) == 3 and not transposed else 1
    inner, columns = matrix.shape[-2:]
    if len(weight.sizes) == 3 and transposed:
        reject(f"{call.name} with a weight of the shape {weight.sizes}")
    packed = pack_weight(run, weight, matrix, batch)
    _check_shape(call, x, out, inner, columns)
    summed(call.name, x)
    base = _base("linear", out, inner, bias is not None)
    name = "_".join([base, out.storage, packed.storage, out.shader_dtype])
    run.kernel(name, out, x, packed, *([bias] if bias else []))
    images = x.sizes[0] if x.dim == 3 else 1
    value = wide(run.read(x))
    if batch > 1:
        # Weights repeat, if there are fewer than images.
        matrix = matrix[[image % batch for image in range(images)]]
        value = value.reshape(images, *x.sizes[-2:])
    product = value @ wide(matrix)
    _store(run, call, out, product.reshape(*x.sizes[:-1], columns), bias, scales)


def _check_shape(call: Call, x: Tensor, out: Tensor, inner: int, columns: int) -> None:
    if not x.dim >= 1 or x.sizes[-1] != inner or out.sizes[-1:] != [columns]:
        reject(f"{call.name} of {x} to {out}, by a matrix of {inner} rows and {columns} columns")
    for tensor in (x, out):
        if tensor.dim > _MOST and math.prod(tensor.sizes[:-3]) > 1:
            reject(f"{call.name} of {tensor}, which has more than {_MOST} dimensions")


def _store(
    run: Run,
    call: Call,
    out: Tensor,
    product: torch.Tensor,
    bias: Tensor | None,
    scales: tuple[float, float] = (1.0, 1.0),
) -> None:
    if bias is not None:
        alpha, beta = scales
        added = wide(run.read(bias))
        rows, columns = bias.whcn[1], bias.whcn[0]
        if bias.dim > 2 or columns not in (1, out.sizes[-1]) or rows not in (1, out.whcn[1]):
            reject(f"{call.name} with the bias {bias} to {out}")
        product = alpha * product + beta * added
    run.write(out, product)


def _linear(run: Run, call: Call) -> None:
    x, weight, out = call.tensor(0), call.constant(1), call.tensor(3)
    bias = None if call.is_none(2) else call.packed(2, out.storage)
    if len(weight.sizes) != 2:
        reject(f"{call.name} with a weight of the shape {weight.sizes}")
    if bias is not None and bias.dim != 1:
        reject(f"{call.name} with a bias of the shape {bias.sizes}")
    if run.dynamic and x.dim not in (2, 3):
        reject(f"{call.name} of {x}, whose shape is dynamic")
    _with_weight(run, call, (x, weight, out), bias, transposed=True)


def _product(run: Run, call: Call) -> None:
    x, out = call.tensor(0), call.tensor(2)
    if call.is_constant(1):
        return _with_weight(run, call, (x, call.constant(1), out), None, transposed=False)
    return _of_tensors(run, call, x, call.tensor(1), out, None)


def _of_tensors(
    run: Run,
    call: Call,
    x: Tensor,
    y: Tensor,
    out: Tensor,
    bias: Tensor | None,
    scales: tuple[float, float] = (1.0, 1.0),
) -> None:
    must_pack(call.name, WIDTH, x, y, out, *([bias] if bias else []))
    if x.dim < 2 or y.dim < 2:
        reject(f"{call.name} of {x} and {y}")
    inner, columns = y.sizes[-2:]
    if run.dynamic:
        run.resize(out, [*x.sizes[:-1], columns])
    name = "_".join([_base("matmul", out, inner, bias is not None), out.storage, out.shader_dtype])
    run.kernel(name, out, x, y, *([bias] if bias else []))
    _check_shape(call, x, out, inner, columns)
    summed(call.name, x)
    _check_shape(call, y, y, columns, columns)
    if x.sizes[:-2] != y.sizes[:-2]:
        reject(f"{call.name} of {x} and {y}, which have other batches")
    _store(run, call, out, wide(run.read(x)) @ wide(run.read(y)), bias, scales)


def _sum_of_product(run: Run, call: Call) -> None:
    x, out = call.tensor(1), call.tensor(5)
    scales = (call.float32(4), call.float32(3))
    if call.is_constant(2):
        bias = None if call.is_none(0) else call.packed(0, out.storage, passthrough=True)
        if bias is not None:
            must_pack(call.name, WIDTH, bias)
        return _with_weight(run, call, (x, call.constant(2), out), bias, transposed=False, scales=scales)
    bias = call.packed(0, out.storage, passthrough=True)
    return _of_tensors(run, call, x, call.tensor(2), out, bias, scales)


SEMANTICS: Final[dict[str, Semantics]] = {
    "aten.linear.default": _linear,
    "aten.mm.default": _product,
    "aten.bmm.default": _product,
    "aten.addmm.default": _sum_of_product,
}
