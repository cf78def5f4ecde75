# SPDX-License-Identifier: Apache-2.0
"""Layers whose operands have elements of four to eight bits, with one scale per block: the MX formats.

Each block of 32 elements of the last dimension has a scale, a power of two. The formats are those of the OCP
Microscaling specification 1.0, and the choice of scales is that of TOSA's reference model: the smallest with
which no element rounds to a value beyond the largest.

Quantized values are stored as in torchao: 8-bit types as themselves, 6-bit types one per byte, 4-bit types
two per byte, the first one in the low bits. Scales are bytes: the exponent plus 127; 255 is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional as f

BLOCK: Final = 32
"""Elements with one scale."""
_BIAS: Final = 127
_NAN: Final = 255


@dataclass(frozen=True)
class Format:
    """A type of elements.

    Attributes:
        exponent: bits of the exponent.
        mantissa: bits of the mantissa.
        largest: the largest value.
        dtype: of the stored values.
    """

    exponent: int
    mantissa: int
    largest: float
    dtype: torch.dtype = torch.uint8

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return 1 + self.exponent + self.mantissa

    @property
    def limit(self) -> float:
        """The midpoint of the largest value and the next one, if the exponent had more bits."""
        return self.largest + math.ldexp(0.25, math.frexp(self.largest)[1] - self.mantissa)

    @property
    def is_even(self) -> bool:
        """Whether the limit is rounded to the largest value."""
        return math.ldexp(self.largest, self.mantissa - math.frexp(self.largest)[1] + 1) % 2 == 0

    @property
    def in_a_byte(self) -> int:
        """Elements per stored value."""
        return 2 if self.bits == 4 else 1


FORMATS: Final = {
    "fp8e4m3": Format(4, 3, 448.0, torch.float8_e4m3fn),
    "fp8e5m2": Format(5, 2, 57344.0, torch.float8_e5m2),
    "fp6e2m3": Format(2, 3, 7.5),
    "fp6e3m2": Format(3, 2, 28.0),
    "fp4e2m1": Format(2, 1, 6.0),
}
"""Name -> format."""


@cache
def _magnitudes(format: str) -> tuple[float, ...]:
    """Returns the nonnegative values of a small format, indexed by their codes."""
    found = FORMATS[format]
    bias, unit = (1 << found.exponent - 1) - 1, 1 << found.mantissa
    values = []
    for code in range(1 << found.bits - 1):
        exponent, fraction = divmod(code, unit)
        values.append(math.ldexp(fraction + unit * (exponent > 0), max(exponent, 1) - bias - found.mantissa))
    return tuple(values)


def _in_blocks(x: Tensor) -> Tensor:
    return x.reshape(*x.shape[:-1], x.shape[-1] // BLOCK, BLOCK)


def encode(x: Tensor, format: str) -> tuple[Tensor, Tensor]:
    """Returns the codes of a tensor, one in a byte, and the scales of its blocks.

    Args:
        x: floating point; its last dimension is a multiple of `BLOCK`.
        format: of `FORMATS`.
    """
    found = FORMATS[format]
    blocks = _in_blocks(x.to(torch.float32))
    largest = blocks.abs().amax(-1)
    fraction, exponent = torch.frexp(largest)
    limit, offset = math.frexp(found.limit)
    is_beyond = fraction > limit if found.is_even else fraction >= limit
    power = (exponent - offset + is_beyond).clamp(-_BIAS, _BIAS)
    power = torch.where(largest == 0, -_BIAS, power)
    is_finite = torch.isfinite(largest)
    scales = torch.where(is_finite, power + _BIAS, _NAN).to(torch.uint8)
    scaled = torch.ldexp(blocks.to(torch.float64), -power.unsqueeze(-1)).to(torch.float32).flatten(-2)
    return scaled.to(found.dtype) if found.dtype != torch.uint8 else _codes(scaled, format), scales


def _codes(x: Tensor, format: str) -> Tensor:
    """Returns the codes of the nearest values; ties to even."""
    values = torch.tensor(_magnitudes(format), device=x.device)
    size, middles = x.abs().nan_to_num(0.0), (values[1:] + values[:-1]) / 2
    low = torch.bucketize(size.contiguous(), middles)
    is_tie = size == middles[low.clamp(max=middles.numel() - 1)]
    code = torch.where(is_tie & (low % 2 == 1), low + 1, low)
    return (code + torch.signbit(x) * values.numel()).to(torch.uint8)


def decode(codes: Tensor, scales: Tensor, format: str) -> Tensor:
    """Returns the values of codes and scales as float32, see `encode`."""
    values = codes
    if FORMATS[format].dtype == torch.uint8:
        sizes = torch.tensor(_magnitudes(format), device=codes.device)
        values = torch.cat([sizes, -sizes])[codes.to(torch.int64)]
    exponents = scales.to(torch.float64)
    powers = torch.where(exponents == _NAN, math.nan, torch.exp2(exponents - _BIAS))
    blocks = _in_blocks(values.to(torch.float64))
    return (blocks * powers.unsqueeze(-1)).flatten(-2).to(torch.float32)


def unpack(elements: Tensor) -> Tensor:
    """Unpacks codes that are stored two per byte."""
    return torch.stack([elements & 15, elements >> 4], -1).flatten(-2)


def to_blocks(x: Tensor, format: str) -> tuple[Tensor, Tensor]:
    """Returns the stored quantized values of a tensor, and the scales of its blocks; see `encode`."""
    codes, scales = encode(x, format)
    return codes[..., ::2] | codes[..., 1::2] << 4 if FORMATS[format].in_a_byte == 2 else codes, scales


def from_blocks(elements: Tensor, scales: Tensor, format: str) -> Tensor:
    """Dequantizes stored quantized values to float32."""
    return decode(unpack(elements) if FORMATS[format].in_a_byte == 2 else elements, scales, format)


def fake_quantized(x: Tensor, format: str) -> Tensor:
    """Returns the values of a format nearest to those of a tensor."""
    return decode(*encode(x, format), format)


def _wide(bias: Tensor | None) -> Tensor | None:
    return None if bias is None else bias.to(torch.float32)


def linear(x: Tensor, elements: Tensor, scales: Tensor, bias: Tensor | None, format: str) -> Tensor:
    """Multiplies by a matrix in blocks; `x` is quantized to the same format.

    Args:
        x: [..., C], floating point.
        elements: [1, N, C], as stored.
        scales: [1, N, C / 32].
        bias: [N].
        format: of `FORMATS`.

    Returns:
        [..., N], float32.
    """
    return f.linear(fake_quantized(x, format), from_blocks(elements, scales, format)[0], _wide(bias))


def conv2d(
    x: Tensor,
    elements: Tensor,
    scales: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    format: str,
) -> Tensor:
    """Convolves channels-last images [N, H, W, C] with kernels [O, H, W, C] in blocks; see `linear`."""
    images, kernels = fake_quantized(x, format), from_blocks(elements, scales, format)
    sums = f.conv2d(
        images.permute(0, 3, 1, 2),
        kernels.permute(0, 3, 1, 2),
        _wide(bias),
        tuple(stride),
        tuple(padding),
        tuple(dilation),
    )
    return sums.permute(0, 2, 3, 1).contiguous()


_WEIGHT: Final = "Tensor x, Tensor elements, Tensor scales, Tensor? bias"
_SCHEMAS: Final = (
    f"block_scaled_linear({_WEIGHT}, str format) -> Tensor",
    f"block_scaled_conv2d({_WEIGHT}, SymInt[2] stride, SymInt[2] padding, SymInt[2] dilation, str format) "
    "-> Tensor",
)
_LIBRARY: Final[Any] = torch.library.Library("delegatec", "FRAGMENT")  # type: ignore[no-untyped-call]
for _schema, _function in zip(_SCHEMAS, (linear, conv2d), strict=True):
    _LIBRARY.define(_schema)
    # Not decomposed: no kernel quantizes to these formats.
    _LIBRARY.impl(_schema.partition("(")[0], _function, "CompositeExplicitAutograd")

LINEAR: Final = torch.ops.delegatec.block_scaled_linear.default
CONV2D: Final = torch.ops.delegatec.block_scaled_conv2d.default
