# SPDX-License-Identifier: Apache-2.0
"""Scans with quantized weights as the calls of all of their steps."""

from __future__ import annotations

from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan

from delegatec.edge.control_flow import calls
from delegatec.edge.passes.unroll_scans import unroll_quantized_scans
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE
from delegatec.edge.testing import assert_computes, called, edge
from delegatec.edge.verifier import verify

aten = torch.ops.aten
_STEPS: Final = 5
_WIDTH: Final = 160


class Steps(nn.Module):
    """Two states, of which one is passed on, two sliced operands, one that all steps read, and a weight."""

    def __init__(self, dtype: torch.dtype = torch.int8) -> None:
        super().__init__()
        # more than what is folded
        weight = torch.randint(-64, 64, (_WIDTH, _WIDTH), generator=torch.Generator().manual_seed(0))
        self.register_buffer("weight", weight.to(dtype))
        self.register_buffer("start", torch.ones(2, _WIDTH))

    def forward(self, x: Tensor, y: Tensor, scale: Tensor) -> Any:
        weight, start = self.weight, self.start
        assert isinstance(weight, Tensor) and isinstance(start, Tensor)

        def step(state: tuple[Tensor, Tensor], rows: tuple[Tensor, Tensor]) -> Any:
            one, other = state
            new = torch.tanh(one @ (weight.float() / 512) + rows[0] * scale)
            return (new, one + 0), (new * 2, other + rows[1])

        state, results = scan(step, (start.clone(), start * 2), (x, y))
        return *state, *results, weight.float().sum()


def _inputs() -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(_STEPS, 2, _WIDTH, generator=generator) for _ in range(2))
    return x, y, torch.tensor(0.5)


def _unrolled(module: nn.Module, *inputs: Tensor, **options: Any) -> tuple[EdgeProgram, bool]:
    program = edge(module, *inputs, preserve=[QUANTIZE, DEQUANTIZE])
    changed = unroll_quantized_scans(program, **options)
    for part in program.walk():
        verify(part)
    assert_computes(program, module(*inputs), *inputs)
    return program, changed


def test_steps_are_calls() -> None:
    program, changed = _unrolled(Steps(), *_inputs())
    assert changed and not calls(program) and not program.bodies
    assert called(program).count(aten.mm.default) == _STEPS
    # a constant that both graphs have is one
    assert [value.dtype for value in program.constants.values()].count(torch.int8) == 1
    assert "weight" in program.names_in_model().values()
    assert not unroll_quantized_scans(program)


@pytest.mark.parametrize("most", [{"most_copied": _WIDTH * _WIDTH * _STEPS - 1}, {"most_calls": 6 * _STEPS}])
def test_limits(most: dict[str, int]) -> None:
    program, changed = _unrolled(Steps(), *_inputs(), **most)
    assert not changed and len(calls(program)) == 1
    assert _unrolled(Steps(), *_inputs(), **{name: 10 * value for name, value in most.items()})[1]


def test_weights_in_float_stay_in_a_loop() -> None:
    assert not _unrolled(Steps(torch.float32), *_inputs())[1]


class IntegerSteps(nn.Module):
    """Rows, state and results are integers, as after quantization with samples; a row is a result, too."""

    def __init__(self) -> None:
        super().__init__()
        weight = torch.randint(-64, 64, (_WIDTH, _WIDTH), generator=torch.Generator().manual_seed(0))
        self.register_buffer("weight", weight.to(torch.int8))

    def forward(self, x: Tensor) -> Any:
        weight = self.weight
        assert isinstance(weight, Tensor)

        def step(state: Tensor, row: Tensor) -> Any:
            new = _dq(state, 0.02, 3) @ _dq(weight, 0.002, 0) + _dq(row, 0.03, -2)
            return _q(new, 0.02, 3), (_q(new.exp(), 0.05, -7), row.clone())

        state, results = scan(step, _q(x[0] * 0, 0.02, 3), _q(x, 0.03, -2))
        return _dq(state, 0.02, 3), _dq(results[0], 0.05, -7), _dq(results[1], 0.03, -2)


def _q(x: Tensor, scale: float, zero: int) -> Tensor:
    result: Tensor = QUANTIZE(x, scale, zero, -128, 127, torch.int8)
    return result


def _dq(x: Tensor, scale: float, zero: int) -> Tensor:
    result: Tensor = DEQUANTIZE(x, scale, zero, -128, 127, torch.int8)
    return result


def test_integers_are_moved_in_float() -> None:
    """Backends know the scale of a quantized value that is moved by the calls around the move."""
    x, _, _ = _inputs()
    program, changed = _unrolled(IntegerSteps(), x)
    assert changed and not calls(program)
    moves = (aten.slice.Tensor, aten.cat.default)
    found = [node for node in program.graph.nodes if node.target in moves]
    assert len(found) == _STEPS + 2 and all(node.meta["val"].dtype == torch.float32 for node in found)


class ReversedSteps(IntegerSteps):
    """The rows are read from the last one on, and the results are in the order of the rows."""

    def forward(self, x: Tensor, y: Tensor) -> Any:
        weight = self.weight
        assert isinstance(weight, Tensor)

        def step(state: Tensor, rows: tuple[Tensor, Tensor]) -> Any:
            new = torch.tanh(_dq(state, 0.02, 3) @ _dq(weight, 0.002, 0) + _dq(rows[0], 0.03, -2) * rows[1])
            return _q(new, 0.02, 3), (_q(new * 2, 0.05, -7), new[0].sum())

        quantized = _q(_dq(_q(x, 0.03, -2), 0.03, -2).flip(0), 0.03, -2)
        state, (first, second) = scan(step, _q(x[0] * 0, 0.02, 3), (quantized, y.flip(0)))
        return _dq(state, 0.02, 3), _dq(first, 0.05, -7).flip(0), second.flip(0), second * 2


def test_reversed_rows_are_not_moved() -> None:
    x, y, _ = _inputs()
    program, changed = _unrolled(ReversedSteps(), x, y)
    assert changed and aten.flip.default not in called(program)
