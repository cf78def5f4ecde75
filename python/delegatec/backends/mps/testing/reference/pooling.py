# SPDX-License-Identifier: Apache-2.0
"""Cases of pooling: node type -> tables, inputs, results, in loops over windows and their elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from delegatec_schemas.mps_graph import Pool2dT

from delegatec.backends.mps.testing.reference.layers import IMAGE
from delegatec.backends.mps.testing.reference.synthetic import Case

Tensor = torch.Tensor


def _pool(**fields: Any) -> Pool2dT:
    table = Pool2dT(
        input1Id=0,
        kernelHeight=2,
        kernelWidth=3,
        strideHeight=2,
        strideWidth=1,
        dilationHeight=1,
        dilationWidth=1,
        output1Id=10,
        output2Id=11,
    )
    for name, value in fields.items():
        setattr(table, name, value)
    return table


def _windows(table: Pool2dT, x: Tensor, up: bool) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
    """Yields row and column of each result, and the indices of its window, some of them outside."""
    sizes = []
    for size, before, after, kernel, dilation, stride in (
        (
            x.shape[2],
            table.paddingTop,
            table.paddingBottom,
            table.kernelHeight,
            table.dilationHeight,
            table.strideHeight,
        ),
        (
            x.shape[3],
            table.paddingLeft,
            table.paddingRight,
            table.kernelWidth,
            table.dilationWidth,
            table.strideWidth,
        ),
    ):
        fit = (size + before + after - (kernel - 1) * dilation - 1) / stride
        sizes.append((math.ceil(fit) if up else math.floor(fit)) + 1)
    for row, column in itertools.product(*map(range, sizes)):
        top = row * table.strideHeight - table.paddingTop
        left = column * table.strideWidth - table.paddingLeft
        yield (
            row,
            column,
            [
                (top + r * table.dilationHeight, left + c * table.dilationWidth)
                for r in range(table.kernelHeight)
                for c in range(table.kernelWidth)
            ],
        )


def _within(position: tuple[int, int], x: Tensor) -> bool:
    return 0 <= position[0] < x.shape[2] and 0 <= position[1] < x.shape[3]


def _largest(table: Pool2dT) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    def compute(x: Tensor) -> tuple[Tensor, Tensor]:
        found: dict[tuple[int, ...], tuple[float, int]] = {}
        for n, c in itertools.product(*map(range, x.shape[:2])):
            for row, column, positions in _windows(table, x, bool(table.ceilMode)):
                inside = [
                    (x[n, c, r, k].item(), r * x.shape[3] + k) for r, k in positions if _within((r, k), x)
                ]
                found[n, c, row, column] = max(inside, key=lambda pair: (pair[0], -pair[1]))
        shape = [last + 1 for last in max(found)]
        values, indices = (torch.tensor([pair[i] for _, pair in sorted(found.items())]) for i in (0, 1))
        return values.reshape(shape), indices.reshape(shape)

    return compute


def _average(table: Pool2dT) -> Callable[[Tensor], Tensor]:
    def compute(x: Tensor) -> Tensor:
        found: dict[tuple[int, ...], float] = {}
        for n, c in itertools.product(*map(range, x.shape[:2])):
            for row, column, positions in _windows(table, x, False):
                inside = [x[n, c, r, k].item() for r, k in positions if _within((r, k), x)]
                count = table.divisorOverride or (len(positions) if table.countIncludePad else len(inside))
                found[n, c, row, column] = sum(inside) / count
        return torch.tensor([value for _, value in sorted(found.items())]).reshape(
            [last + 1 for last in max(found)]
        )

    return compute


def _maxima(**fields: Any) -> Case:
    table = _pool(**fields)
    return Case(table, (IMAGE,), _largest(table), dtypes=(torch.float32, torch.int32))


def _averages(half: bool = True, **fields: Any) -> Case:
    table = _pool(**fields)
    return Case(table, (IMAGE,), _average(table), half=half)


CASES: Final[dict[str, list[Case]]] = {
    "MaxPool2DWithIndices": [
        _maxima(),
        _maxima(paddingLeft=1, paddingTop=1, paddingBottom=0, dilationWidth=2),
        _maxima(ceilMode=True),
        _maxima(ceilMode=True, paddingRight=1, strideWidth=2),
    ],
    "AvgPool2D": [
        _averages(),
        _averages(ceilMode=True),
        _averages(paddingLeft=1, paddingRight=1, paddingTop=1, countIncludePad=True),
        _averages(paddingLeft=1, paddingRight=1, paddingTop=1, countIncludePad=False),
        _averages(paddingLeft=1, countIncludePad=False, divisorOverride=5, half=False),
        _averages(dilationHeight=2, strideHeight=1),
    ],
}
