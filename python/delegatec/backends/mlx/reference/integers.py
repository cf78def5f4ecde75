# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of integers, and control flow."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import torch

from delegatec.backends.mlx.reference.run import Run, Semantics, axis_of, reject


def _binary(function: Callable[[int, int], int]) -> Semantics:
    def run(run: Run, node: Any) -> None:
        first, second = run.integer(node.a), run.integer(node.b)
        if second == 0 and function in (operator.floordiv, operator.mod):
            reject("an integer is divided by zero")
        run.set_value(node.out, function(first, second))

    return run


def _sym_size(run: Run, node: Any) -> None:
    x = run[node.a]
    run.set_value(node.out, x.shape[axis_of(node.dim, x.dim())])


def _item(run: Run, node: Any) -> None:
    """The runtime reads four bytes as an integer, of a tensor of any dtype; without elements it is 0."""
    x = run[node.x]
    if x.numel() != 1:
        reject(f"an Item of a tensor of shape {list(x.shape)}")
    if x.dtype not in (torch.int32, torch.int64):
        reject(f"an Item of {x.dtype}, whose bytes would be read as an integer of 32 bits")
    limits = torch.iinfo(torch.int32)
    value = 0 if x.is_meta else int(x.item())
    run.set_value(node.out, (value - limits.min) % 2**32 + limits.min)


def _if(run: Run, node: Any) -> None:
    condition = run.integer(node.condition)
    if not run.has_elements:  # the types of both chains
        run.run_chain(node.no)
    run.run_chain(node.yes if condition or not run.has_elements else node.no)


def _scan(run: Run, node: Any) -> None:
    if not node.originals:
        reject("a Scan without originals")
    originals = [run[each] for each in node.originals]
    length = originals[0].shape[axis_of(node.axis, originals[0].dim())]
    found: list[list[torch.Tensor]] = [[] for _ in node.outputs]
    for step in range(length if run.has_elements else 1):
        for slot, original in zip(node.sliced, originals, strict=True):
            run[slot] = original.select(axis_of(node.axis, original.dim()), step)
        run.run_chain(node.body)
        for collected, slot in zip(found, node.outputs, strict=True):
            collected.append(run[slot])
    for collected, slot in zip(found, node.outputs, strict=True):
        rows = collected if run.has_elements else collected * length
        run[slot] = torch.stack(rows, axis_of(node.axis, rows[0].dim() + 1))


SEMANTICS: Final[dict[str, Semantics]] = {
    "AddInt": _binary(operator.add),
    "FloorDivideInt": _binary(operator.floordiv),
    "If": _if,
    "Item": _item,
    "ModInt": _binary(operator.mod),
    "MultiplyInt": _binary(operator.mul),
    "Scan": _scan,
    "SubtractInt": _binary(operator.sub),
    "SymSize": _sym_size,
}
