# SPDX-License-Identifier: Apache-2.0
"""Operations that move elements, in each dtype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch

from delegatec.backends.xnnpack.reference.testing import Content
from delegatec.backends.xnnpack.testing.reference.cases import Case, In, Out, quantized_values, random
from delegatec.backends.xnnpack.testing.reference.elementwise import SHORT

_DTYPES: Final = (torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32)
_NO_PADS: Final = frozenset({torch.int32})


def _content(dtype: torch.dtype, *shape: int) -> Content:
    if dtype in (torch.int8, torch.uint8):
        return quantized_values(*shape, dtype=dtype)
    return (random(*shape) * 10).to(dtype)


def _result(content: Any) -> Out:
    if isinstance(content, torch.Tensor):
        return Out(content.dtype)
    return Out(content.tensor.dtype, content.scale, content.zero_point)


def _moves() -> Iterator[Case]:
    for dtype in _DTYPES:
        short = SHORT[dtype]
        value = _content(dtype, 2, 3, 4)
        result = _result(value)
        yield Case(f"Copy-{short}", "Copy", [In(value), result, 0])
        for shape in ([6, 4], [2, 1, 3, 2, 2], [0, 8], [24], [3, 0, 1, 1, 2, 1]):
            yield Case(f"Reshape{shape}-{short}", "Reshape", [len(shape), shape, In(value), result, 0])
        yield Case(f"Transpose-{short}", "Transpose", [3, [2, 0, 1], In(value), result, 0])
        large = _content(dtype, 2, 3, 1, 2, 3, 2)
        yield Case(f"Transpose6-{short}", "Transpose", [6, [5, 3, 1, 0, 2, 4], In(large), _result(large), 0])
        for offsets, sizes in (
            ([0, 1, 2], [2, 2, 1]),
            ([0, 0, 1], [0, 0, 3]),
            ([1, 0, 0], [9, 3, 2]),
            ([0, 1, 0], [0, 9, 0]),
        ):
            fields = [3, offsets, sizes, In(value), result, 0]
            yield Case(f"Slice{offsets}{sizes}-{short}", "Slice", fields)
        if dtype not in _NO_PADS:
            for padding in (0.0, -1.37):
                fields = [[1, 0, 2], [0, 3, 1], padding, In(value), result, 0]
                yield Case(f"ConstantPad{padding}-{short}", "ConstantPad", fields)
        for count in (2, 3, 4, 5):
            for axis in (0, 1, 2, 2**32 - 1):
                yield _concatenate(dtype, count, axis)


def _concatenate(dtype: torch.dtype, count: int, axis: int) -> Case:
    shapes = [[2, 3, 4] for _ in range(count)]
    for extra, shape in enumerate(shapes):
        shape[axis if axis < len(shape) else -1] += extra
    inputs: list[Any] = [In(_content(dtype, *shape)) for shape in shapes]
    padded = [*inputs[:4], *[0] * (4 - count)]
    fields = [axis, *padded, _result(inputs[0].content), 0, inputs[4] if count == 5 else 0]
    return Case(f"Concatenate{count}-{axis}-{SHORT[dtype]}", f"Concatenate{count}", fields)


MOVES: Final = tuple(_moves())
