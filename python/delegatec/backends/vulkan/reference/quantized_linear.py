# SPDX-License-Identifier: Apache-2.0
"""Products of floats with quantized weights, and the parameters for quantizing rows."""

from __future__ import annotations

import math
from typing import Any, Final

import torch

from delegatec.backends.vulkan.reference.call import Call, must_pack
from delegatec.backends.vulkan.reference.elementwise import wide
from delegatec.backends.vulkan.reference.quantized import inverse_of, quantize
from delegatec.backends.vulkan.reference.run import Run, Semantics
from delegatec.backends.vulkan.reference.tensors import BUFFER, TEXTURE_2D, WIDTH, Constant, Tensor, reject

_TEXEL: Final = 4
_HALF_BYTE: Final = 8
_EMBEDDING_BLOCK: Final = 32


def nibbles(weight: torch.Tensor, *, high_first: bool = False) -> torch.Tensor:
    """Unpacks bytes into pairs of 4-bit integers, which are stored with an offset of 8."""
    pairs = [(weight & 15).to(torch.int8) - _HALF_BYTE, (weight >> 4).to(torch.int8) - _HALF_BYTE]
    return torch.stack(pairs[::-1] if high_first else pairs, -1).flatten(-2)


class _Product:
    """Operands of a product with a quantized weight.

    Attributes:
        x, out: the operand and the result.
        rows: the rows of the operand.
    """

    def __init__(self, run: Run, call: Call, weight: Constant, bias: int) -> None:
        self._run, self._call = run, call
        self.x, self.out = call.tensor(0), call.tensor(-1)
        must_pack(call.name, WIDTH, self.x, self.out)
        for tensor in (self.x, self.out):
            if math.prod(tensor.sizes[:-2]) != 1:
                reject(f"{call.name} of {tensor}, which must be a matrix")
        four = weight.dtype == torch.uint8
        if weight.dtype not in (torch.uint8, torch.int8) or len(weight.sizes) != 2:
            reject(f"{call.name} with a weight of {weight.dtype} of the shape {weight.sizes}")
        self.rows = weight.sizes[1] * (2 if four else 1)
        self.columns = self.out.sizes[-1]
        if self.x.sizes[-1] != self.rows or weight.sizes[0] != self.columns or self.rows % _TEXEL:
            reject(f"{call.name} of {self.x} with a weight of the shape {weight.sizes}")
        if self.out.is_buffer and self.columns % _TEXEL:
            reject(f"{call.name} to {self.out}, a buffer whose rows are not whole texels")
        self.bias = None if call.is_none(bias) else call.packed(bias, BUFFER)
        if self.bias is not None and (
            self.bias.sizes[-1] < self.columns or self.bias.dtype != self.out.dtype
        ):
            reject(f"{call.name} with a bias of {self.bias.dtype} of the shape {self.bias.sizes}")

    def store(self, value: torch.Tensor) -> None:
        """Adds the bias."""
        if self.bias is not None:
            value = value + wide(self._run.read(self.bias))[: self.columns]
        self._run.write(self.out, value)

    def groups(self, scales: Constant, size: int) -> torch.Tensor:
        """Returns the scale of each weight: (rows, columns)."""
        if size < 1 or size % _TEXEL or self.rows % size:
            reject(f"{self._call.name} of {self.rows} rows in groups of {size}")
        table = scales.value
        if list(table.shape[:1]) != [self.rows // size] or table.shape[-1] < self.columns:
            reject(f"{self._call.name} with scales of the shape {scales.sizes}")
        return wide(table)[:, : self.columns].float().repeat_interleave(size, 0)


def _per_channel(run: Run, call: Call) -> None:
    weight = call.constant(1)
    product = _Product(run, call, weight, 3)
    scales = call.packed(2, BUFFER)
    name = f"linear_q8csw_tiled_{product.out.storage}_{TEXTURE_2D}_{product.out.shader_dtype}"
    run.kernel(name, product.out, product.x, None, scales)
    value = wide(run.read(product.x)) @ weight.value.float().T
    product.store(value * wide(run.read(scales))[: product.columns])


def _static(run: Run, call: Call) -> None:
    """Quantizes the operand, on devices with int8 products."""
    weight = call.constant(3)
    product = _Product(run, call, weight, 6)
    x, out = product.x, product.out
    sums, scales = call.packed(4, BUFFER), call.packed(5, BUFFER)
    run.kernel("_".join(["quantize_and_pack_4h4w_per_tensor", BUFFER, x.storage, x.shader_dtype]), None, x)
    name = "_".join(["linear_q8ta_q8csw_tiled", out.storage, BUFFER, TEXTURE_2D, out.shader_dtype])
    run.kernel(name, out)
    zero = call.integer(2)
    quantized = quantize(run, run.read(x), inverse_of(call, 1), zero)
    total = (quantized.double() @ weight.value.double().T).float()
    value = total - run.read(sums)[: product.columns].float() * zero
    product.store(value * call.float32(1) * wide(run.read(scales))[: product.columns])


def _per_group(run: Run, call: Call) -> None:
    weight, scales = call.constant(1), call.constant(2)
    product = _Product(run, call, weight, 4)
    if product.columns % _TEXEL or weight.dtype != torch.uint8:
        reject(f"{call.name} to {product.out}")
    kernel = "_".join(["q4gsw_linear_gemm__w_4x8_nc", product.out.storage, product.out.shader_dtype])
    run.kernel(kernel, product.out, product.x)
    matrix = nibbles(weight.value).float().T * product.groups(scales, call.integer(3))
    product.store(wide(run.read(product.x)) @ matrix)


def _dynamic(run: Run, call: Call) -> None:
    """Quantizes the rows of the operand with parameters that are tensors."""
    scale, zero, weight = call.tensor(1), call.tensor(2), call.constant(3)
    product = _Product(run, call, weight, 7)
    x, out = product.x, product.out
    if product.rows % _HALF_BYTE or weight.dtype != torch.uint8:
        reject(f"{call.name} with a weight of the shape {weight.sizes}")
    mode = "zpint8" if zero.dtype == torch.int8 else "zpinherit"
    kind = "coop" if x.sizes[-2:-1] == [1] else "tiled"
    name = "_".join([f"linear_dq8ca_q4gsw_{kind}", out.storage, TEXTURE_2D, out.shader_dtype, mode])
    run.kernel(name, out, x, None, None, scale, zero)
    must_pack(call.name, WIDTH, scale, zero)
    rows = x.sizes[-2] if x.dim > 1 else 1
    if scale.numel != rows or zero.numel != rows:
        reject(f"{call.name} of {x} with {scale} and {zero}")
    steps, zeros = (wide(run.read(tensor)).float().reshape(rows, 1) for tensor in (scale, zero))
    value = wide(run.read(x)).reshape(rows, -1)
    for index in (4, 5):
        if call.constant(index).sizes[-1] % _TEXEL:
            reject(f"{call.name} with constants of the shape {call.constant(index).sizes}, not whole texels")
    if kind == "coop":
        # A single row is not quantized.
        quantized, steps = value, torch.ones_like(steps)
    else:
        quantized = ((value / steps).round() + zeros).clamp(-128, 127) - zeros
    matrix = nibbles(weight.value).float().T * product.groups(call.constant(5), call.integer(6))
    product.store(((quantized @ matrix) * steps).reshape(out.sizes))


def _choose(run: Run, call: Call) -> None:
    x, (scale, zero) = call.tensor(0), _pair(call)
    sizes = call.int_list(2)
    is_filled = x.packed == WIDTH and (not x.is_buffer or x.sizes[-1] % _TEXEL == 0)
    if not is_filled or math.prod(x.sizes[:-2]) != 1 or sizes[-1:] != x.sizes[-1:] or set(sizes[:-1]) - {1}:
        reject(f"{call.name} of {x} for blocks of {sizes}; the runtime supports rows of a matrix")
    _choose_rows(run, call, (x, scale, zero), (4, 5))


def _pair(call: Call) -> list[Tensor]:
    results = call.tensors(-1)
    if len(results) != 2:
        reject(f"{call.name} with {len(results)} results")
    return results


def _choose_per_row(run: Run, call: Call) -> None:
    _choose_rows(run, call, (call.tensor(0), call.tensor(3), call.tensor(4)), (1, 2))


def _choose_rows(
    run: Run, call: Call, tensors: tuple[Tensor, Tensor, Tensor], limits: tuple[int, int]
) -> None:
    x, scale, zero = tensors
    low, high = (-128, 127) if call.is_none(limits[0]) else [call.integer(index) for index in limits]
    mode = "zpint8" if zero.dtype == torch.int8 else "zpinherit"
    run.kernel("_".join(["choose_qparams_per_row", x.storage, x.shader_dtype, mode]), scale, zero, x)
    must_pack(call.name, WIDTH, scale, zero)
    value = wide(run.read(x)).reshape(-1, x.sizes[-1])
    least, largest = value.amin(1).clamp(max=0), value.amax(1).clamp(min=0)
    step_size = (largest - least) / (high - low)
    step_size = torch.where((step_size == 0) | (1 / step_size).isinf(), 0.1, step_size)
    small = step_size < _SMALLEST_SCALE
    grown = _SMALLEST_SCALE * (high - low)
    factor = torch.where(small, _SMALLEST_SCALE / step_size, 1.0)
    top = torch.where(small & (least == 0), grown, largest * factor)
    bottom = torch.where(small & (least != 0) & (largest == 0), -grown, least * factor)
    bottom = torch.where(least == 0, least, bottom)
    least, largest, step_size = bottom, top, step_size.clamp(min=_SMALLEST_SCALE)
    first, last = low - least / step_size, high - largest / step_size
    lower = (abs(low) - (least / step_size).abs()) < (abs(high) - (largest / step_size).abs())
    middle = torch.where(lower, first, last)
    point = torch.where(middle < low, low, torch.where(middle > high, high, middle.round()))
    run.write(scale, step_size.reshape(scale.sizes))
    run.write(zero, point.reshape(zero.sizes))


_SMALLEST_SCALE: Final = 6.1e-5


def _embedding(run: Run, call: Call) -> None:
    weight, scales, indices, out = call.constant(0), call.constant(1), call.tensor(3), call.tensor(5)
    linear: Any = bool(call.scalar(4))
    size = call.integer(2)
    width = weight.sizes[-1] * 2
    must_pack(call.name, WIDTH, indices, out)
    if width % _EMBEDDING_BLOCK or len(weight.sizes) != 2 or size < 1 or width % size:
        reject(f"{call.name} with a weight of the shape {weight.sizes} in groups of {size}")
    if weight.dtype != torch.uint8 or scales.value.numel() != weight.sizes[0] * (width // size):
        reject(f"{call.name} with a weight of {weight.dtype}, and scales of the shape {scales.sizes}")
    kind = "" if scales.dtype == torch.float16 else "_float_scales"
    packed = f"_linear_weight_{TEXTURE_2D}" if linear else ""
    run.kernel("_".join([f"embedding_q4gsw{kind}{packed}", out.storage, out.shader_dtype]), out, indices)
    if not out.is_buffer and math.prod(indices.sizes[:-1]) != 1:
        reject(f"{call.name} at {indices}, of which the shader reads the first row")
    rows = run.read(indices)
    if bool(((rows < 0) | (rows >= weight.sizes[0])).any()):
        reject(f"{call.name} at an index out of range")
    table = nibbles(weight.value, high_first=not linear).float()
    table = table * scales.value.float().reshape(weight.sizes[0], -1).repeat_interleave(size, 1)
    run.write(out, table[rows.long()])


SEMANTICS: Final[dict[str, Semantics]] = {
    "et_vk.linear_q8csw.default": _per_channel,
    "et_vk.linear_q8ta_q8csw.default": _static,
    "et_vk.linear_q4gsw.default": _per_group,
    "et_vk.q4gsw_linear.default": _per_group,
    "et_vk.linear_dq8ca_q4gsw.default": _dynamic,
    "torchao.choose_qparams_affine.default": _choose,
    "etvk.choose_qparams_per_row.default": _choose_per_row,
    "et_vk.embedding_q4gsw.default": _embedding,
}
