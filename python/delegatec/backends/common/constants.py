# SPDX-License-Identifier: Apache-2.0
"""Constants of a blob: the bytes of tensors, not copied unless they are converted, and range checks."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.delegation import ComputedBytes
from delegatec.delegation.protocol.parts import Elements, TensorBytes, tensor_bytes
from delegatec.diagnostics import Diagnostic
from delegatec.edge.program import EdgeProgram
from delegatec.edge.scaled import ScaledTensor

FLOAT16_MAX: Final = 65504.0
FLOAT16_LEAST: Final = 2.0**-24
"""The smallest positive float16."""
FLOAT32_MAX: Final = torch.finfo(torch.float32).max

# Halfway between the largest float16 and the next one, if there were one: larger floats round to infinity.
_OVERFLOW: Final = 65520.0
# Number of elements per iteration where an iteration allocates memory.
_CHUNK: Final = 1 << 18


class Float16Bytes(TensorBytes):
    """Float32 elements as float16, converted when they are written.

    Finite values of a magnitude or more become the lowest and highest float16. Infinities and NaN stay.

    Args:
        values: float32.
        saturates_from: that magnitude; infinity to saturate nothing.
    """

    def __init__(self, values: Elements, saturates_from: float = math.inf) -> None:
        super().__init__(values, 2)
        self._saturates_from = saturates_from

    def elements(self, start: int, end: int) -> torch.Tensor:
        """Converts a range."""
        values = super().elements(start, end)
        half = values.to(torch.float16)
        if self._saturates_from < math.inf:
            size = values.abs()
            lost = (size >= self._saturates_from) & (size < math.inf)
            half[lost] = values[lost].sign().to(torch.float16) * FLOAT16_MAX
        return half


class BFloat16Bytes(TensorBytes):
    """Float32 elements as bfloat16, converted when they are written. Finite values stay finite.

    Args:
        values: float32.
    """

    def __init__(self, values: Elements) -> None:
        super().__init__(values, 2)

    def elements(self, start: int, end: int) -> torch.Tensor:
        """Converts a range."""
        return to_bfloat16(super().elements(start, end))


def to_bfloat16(values: torch.Tensor) -> torch.Tensor:
    """Rounds values, of which the lowest and highest float32 become those of bfloat16."""
    largest = torch.finfo(torch.bfloat16).max
    return torch.where(values.isfinite(), values.clamp(-largest, largest), values).to(torch.bfloat16)


class Int4Bytes(ComputedBytes):
    """An int8 tensor as int4, two values in a byte, packed when it is written.

    The first of two is in the low nibble, each in two's complement.

    Args:
        tensor: all values in [-8, 8); the last dimension is even.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self._values = tensor.detach().reshape(-1)

    def __len__(self) -> int:
        return self._values.numel() // 2

    def __getitem__(self, section: slice, /) -> memoryview:
        start, end, _ = section.indices(len(self))
        pairs = self._values[2 * start : 2 * end].view(-1, 2)
        return tensor_bytes((pairs[:, 0] & 15) | (pairs[:, 1] << 4))


def to_float16(
    tensor: torch.Tensor, saturates: bool = False, written: Elements | None = None
) -> tuple[Float16Bytes, str]:
    """Converts a float32 tensor to float16, and checks its range.

    The lowest and highest float32, which models use as masks, become the lowest and highest float16, which
    `torch.finfo` would have been in that dtype.

    Args:
        tensor: any shape.
        saturates: whether all other finite values out of float16's range do so, too.
        written: its elements in the order in which they are written; row-major by default.

    Returns:
        Its bytes, which are converted when they are written, and a text with the count and the largest of the
        finite values beyond +-65504 that do not saturate; empty if there are none.
    """
    flat = tensor.detach().reshape(-1)
    written = flat if written is None else written
    if _fits(flat):
        return Float16Bytes(written), ""
    if saturates:
        return Float16Bytes(written, _OVERFLOW), ""
    count, worst = 0, 0.0
    for values in torch.split(flat, _CHUNK):
        size = values.abs()
        rest = values[(size >= _OVERFLOW) & (size < FLOAT32_MAX)]
        count += rest.numel()
        if rest.numel():
            worst = max(worst, rest[rest.abs().argmax()].item(), key=abs)
    scalar = "1 value" if count == 1 else f"{count} values"
    lost = f"{scalar} beyond float16 (+-{FLOAT16_MAX:g}), the largest {worst:g}" if count else ""
    return Float16Bytes(written, FLOAT32_MAX), lost


def is_beyond_float16(scalar: float) -> bool:
    """Returns whether a finite value rounds to an infinite float16."""
    return _OVERFLOW <= abs(scalar) < math.inf


def nonzero_in_float16(scalar: float) -> float:
    """Returns the smallest float16 for a value that would round to zero, and any other value unchanged.

    Such a small value guards a division or a logarithm, as the epsilon of a normalization does; zero would
    not.
    """
    return math.copysign(FLOAT16_LEAST, scalar) if 0 < abs(scalar) < FLOAT16_LEAST else scalar


def _fits(values: torch.Tensor) -> bool:
    """Returns whether all values are certain to be finite in float16, in one pass without allocation."""
    if values.numel() == 0:
        return True
    factor = 1.0
    if isinstance(values, ScaledTensor):
        factor = values.scale.abs().max().item()
        values = values.source
    low, high = (value.item() * factor for value in values.aminmax())
    return low > -_OVERFLOW and high < _OVERFLOW  # not so for NaN


def beyond_float16(message: str, node: Node | None) -> Diagnostic:
    """Returns DC406: a constant cannot be converted to float16.

    Args:
        message: the constant, and why not.
        node: the node that is being lowered.
    """
    help = "compile with precision fp32, or with fp16_overflow saturate, or rescale it"
    return _out_of_range(message, node, help)


def beyond_int32(message: str, node: Node | None) -> Diagnostic:
    """Returns DC406: an integer constant cannot be converted to int32; see `beyond_float16`."""
    help = "use integers within int32, or add the operator that uses this one to block_operators"
    return _out_of_range(message, node, help)


def _out_of_range(message: str, node: Node | None, help: str) -> Diagnostic:
    return Diagnostic(
        code="DC406",
        message=message,
        location=node.meta.get("source") if node is not None else None,
        node=node.name if node is not None else "",
        help=help,
    )


def name_of(program: EdgeProgram, constant: Node) -> str:
    """Returns the kind of a constant and its name in the model, for messages."""
    for node, spec in zip(program.placeholders(), program.input_specs, strict=True):
        if node is constant:
            return f"{spec.kind.name.lower()} {spec.target or node.name}"
    return constant.name
