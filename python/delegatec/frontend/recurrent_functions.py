# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and plain recurrent layers of sequences whose length varies, as scans, for the time of an export.

torch.export unrolls these layers, so that it would fix the length.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan_op
from torch.nn import functional as f

from delegatec.edge.legalize.rules.recurrent import (
    Cell,
    Step,
    cells_of,
    gru,
    layers,
    lstm,
    rnn_relu,
    rnn_tanh,
)

_VF: Final[Any] = torch._VF
_FREE: Final = ("of_hidden", "hidden_bias", "projection")
"""Weights that each time step reads."""


@contextlib.contextmanager
def recurrent_functions_replaced() -> Iterator[None]:
    """Replaces the functions that implement `nn.LSTM`, `nn.GRU` and `nn.RNN`."""
    with contextlib.ExitStack() as stack:
        for name, step in _STEPS.items():
            stack.enter_context(patch.object(_VF, name, _of_any_length(getattr(_VF, name), step)))
        yield


def _of_any_length(original: Callable[..., Any], step: Step[Tensor]) -> Callable[..., Any]:
    """Returns a layer's function that scans a sequence of dynamic length, and unrolls others as before."""

    def function(input: Tensor, *arguments: Any) -> Any:
        # packed sequences have two dimensions
        if input.dim() == 3:
            hx, weights, has_biases, count, dropout, training, both_ways, batch_first = arguments
            is_static = isinstance(input.shape[1 if batch_first else 0], int)
            if not is_static and not (training and dropout):
                directions = 2 if both_ways else 1
                cells = cells_of(f.linear, weights, count * directions, has_biases)
                x = input.transpose(0, 1) if batch_first else input
                state = hx if isinstance(hx, (tuple, list)) else (hx,)
                starts = (tuple(each[index] for each in state) for index in range(len(cells)))
                y, ends = layers(scan(step), torch.cat, cells, directions, x, starts)
                last = (torch.stack(each) for each in zip(*ends, strict=True))
                return (y.transpose(0, 1) if batch_first else y, *last)
        return original(input, *arguments)

    return function


def scan(step: Step[Tensor]) -> Any:
    """Returns the function that computes a sequence by a scan, see `layers`."""

    def scanned(
        cell: Cell[Tensor], x: Tensor, start: tuple[Tensor, ...], is_reversed: bool
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        names = [name for name in _FREE if getattr(cell, name) is not None]

        def body(*values: Tensor) -> list[Tensor]:
            count = len(start)
            weights: Any = dict(zip(names, values[count + 1 :], strict=True))
            state = step(replace(cell, **weights), values[count], values[:count])
            return [*state, state[0].clone()]

        # the product with the input is one for all time steps
        from_input = cell.from_input(x)
        # The operator, as its function would compile the body: code of one layer would fix sizes of the next.
        rows = from_input.flip(0) if is_reversed else from_input
        # Parts of a state may be one tensor, or views of one, which the operator refuses.
        starts = [each.clone() for each in start] if len(start) > 1 else list(start)
        *end, hidden = scan_op(body, starts, [rows], tuple(getattr(cell, name) for name in names))
        return tuple(end), hidden.flip(0) if is_reversed else hidden

    return scanned


_STEPS: Final[dict[str, Step[Tensor]]] = {
    "gru": gru,
    "lstm": lstm,
    "rnn_relu": rnn_relu,
    "rnn_tanh": rnn_tanh,
}
