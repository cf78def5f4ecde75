# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the checks of several operations; problems are ends of sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from delegatec_schemas.xnnpack_graph import DataType, Quantization

from delegatec.backends.xnnpack.flags import SAME_PADDING
from delegatec.backends.xnnpack.ratios import Bounds, fits
from delegatec.backends.xnnpack.values import quantization_of, tensor_of

Check = Callable[[Any, list[Any], list[Any]], Iterator[str]]
"""Yields problems, given an operation's table, and the values of its operands and results."""

_QUANTIZED: Final = frozenset({DataType.INT8, DataType.UINT8})
_PADS: Final = ("paddingTop", "paddingRight", "paddingBottom", "paddingLeft")


def scale_of(value: Any) -> tuple[float, int]:
    """Returns scale and zero point of a quantized value."""
    kind, table = quantization_of(value)
    assert kind == Quantization.ScaleOfTensor
    return float(table.scale), int(table.zeroPoint)


def is_quantized(value: Any) -> bool:
    """Returns whether a value is quantized with one scale."""
    return tensor_of(value).dataType in _QUANTIZED


def ratio_problems(ratio: float, bounds: Bounds) -> Iterator[str]:
    """Yields a problem if no requantization multiplier expresses a ratio of scales."""
    if not fits(ratio, bounds):
        yield f"rescales quantized values by {ratio:.3g}, which is not in [{bounds[0]:.3g}, {bounds[1]:.3g})"


def positive(operation: Any, *names: str) -> Iterator[str]:
    """Yields a problem for each field that is 0."""
    for name in names:
        if int(getattr(operation, name)) < 1:
            yield f"has the {_words(name)} 0"


def _words(name: str) -> str:
    return "".join(f" {each.lower()}" if each.isupper() else each for each in name)


def flag_problems(operation: Any, known: int) -> Iterator[str]:
    """Yields a problem if an operation has other flags than these."""
    if int(operation.flags) & ~known:
        yield f"has the flags {int(operation.flags):#x}"


def pad_problems(operation: Any) -> Iterator[str]:
    """Yields a problem if an operation has pads, and the flag SAME_PADDING."""
    if int(operation.flags) & SAME_PADDING and any(int(getattr(operation, name)) for name in _PADS):
        yield "has pads, and a flag by which they are computed"
