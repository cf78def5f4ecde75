# SPDX-License-Identifier: Apache-2.0
"""Moves of elements, and conversions."""

from __future__ import annotations

from typing import Any, Final

import torch

from delegatec.backends.common.testing import Function, X, floats
from delegatec.backends.xnnpack.testing.operators.case import Case

_BATCH: Final = torch.export.Dim("batch", min=2, max=64)
_MORE: Final = ((floats(64, 3, 4),), (floats(3, 3, 4),))


def _moved(operations: str, move: Function, varies: bool = False) -> Case:
    """Moves the result of an operation: most moves alone are not worth a delegate."""

    def function(x: torch.Tensor) -> Any:
        return move(x.neg())

    sizes = ({0: _BATCH},) if varies else ()
    return Case(function, (X,), f"Negate {operations}" if operations else "", sizes, _MORE if varies else ())


def _bytes(dtype: torch.dtype, operations: str) -> Case:
    """Converts bytes of an input after a move."""
    calls = [(torch.arange(-120, 12 * rows - 120).to(dtype).view(rows, 3, 4),) for rows in (2, 20, 3)]
    return Case(
        lambda x: x.permute(0, 2, 1).float() * 2, calls[0], operations, ({0: _BATCH},), tuple(calls[1:])
    )


CASES: Final[dict[str, Case]] = {
    "bytes": _bytes(torch.int8, "Transpose Convert Multiply"),
    "bytes-without-sign": _bytes(torch.uint8, "Convert Transpose Convert Multiply"),
    "view": _moved("Reshape", lambda x: x.view(6, 4)),
    "view-rows": _moved("Reshape", lambda x: x.view(-1, 2, 6), varies=True),
    "unsqueeze": _moved("Reshape", lambda x: x[:, None, :, :, None], varies=True),
    "squeeze": _moved("Slice Reshape", lambda x: x[:, :1].squeeze(1), varies=True),
    "permute": _moved("Transpose", lambda x: x.permute(2, 0, 1), varies=True),
    "permute-alone": Case(lambda x: x.permute(2, 0, 1), (X,), "Transpose"),
    "rank-6": _moved("Reshape Transpose", lambda x: x[None, None, None].permute(0, 3, 1, 2, 5, 4)),
    "slice": _moved("Slice", lambda x: x[:, 1:], varies=True),
    "slice-step": _moved("", lambda x: x[:, :, 1::2]),
    "slice-negative": _moved("Slice", lambda x: x[:, -2:10]),
    "select": _moved("Slice Reshape", lambda x: x[:, -1], varies=True),
    "split": _moved("Slice Slice", lambda x: x.split([1, 3], 2), varies=True),
    "chunk": _moved("Slice Slice", lambda x: x.chunk(2, 2)),
    "cat-2": _moved("Concatenate2", lambda x: torch.cat([x, x], 1), varies=True),
    "cat-3": _moved("Concatenate3", lambda x: torch.cat([x, x, x], 1)),
    "cat-4": _moved("Concatenate4", lambda x: torch.cat([x, x, x, x], 2)),
    "cat-5": _moved("Concatenate5", lambda x: torch.cat([x] * 5, 0)),
    "cat-7": _moved("Concatenate5 Concatenate2 Concatenate2", lambda x: torch.cat([x] * 7, -1)),
    "stack": _moved("Reshape Concatenate2", lambda x: torch.stack([x, x], 1)),
    "pad": _moved("ConstantPad", lambda x: torch.nn.functional.pad(x, (1, 2, 0, 3), value=0.5)),
    "crop": _moved("", lambda x: torch.nn.functional.pad(x, (-1, 2))),
    "expand": _moved("Reshape Multiply", lambda x: x[None].expand(5, 2, 3, 4)),
    "expand-alone": Case(lambda x: x[None].expand(5, 2, 3, 4), (X,), "Reshape Multiply"),
    "repeat": _moved("", lambda x: x.repeat(2, 1, 3)),
    "roll": _moved("", lambda x: x.roll(1, 2)),
    "full": Case(lambda x: x + torch.full((3, 1), 0.5), (X,)),
    "half": Case(lambda x: (x.half() * 2).float() + 1, (X,), "Convert Multiply Convert Add", half=None),
}
