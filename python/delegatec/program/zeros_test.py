# SPDX-License-Identifier: Apache-2.0
"""Buffers of zeros share a block of the file, and are zero in memory that was not before."""

from __future__ import annotations

import io
from typing import Final

import pytest
import torch
from torch import Tensor, nn

from delegatec import Method, Model
from delegatec.frontend.export import export
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import parse_program
from delegatec.program.reader.state import parts_of_state, state_of
from delegatec.program.zeros import is_zero
from delegatec.verify.arena import Arena
from delegatec.verify.interpreter import Interpreter

_SIZES: Final = (1, 5000, 4096, 16 * 4096 + 3, 300_000)


class Counts(nn.Module):
    """Adds to the last elements of buffers, and returns sums of all."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__()
        for index, size in enumerate(sizes):
            self.register_buffer(f"zeros_{index}", torch.zeros(size))
        self.register_buffer("ones", torch.ones(20_000))
        self.register_buffer("negative", -torch.zeros(20_000))

    def forward(self, x: Tensor) -> Tensor:
        """Writes to all buffers."""
        results = []
        for each in self.buffers():
            each[-1:] += x
            results += [each.sum(), (1 / each[0]).sign()]
        return torch.stack(results)

    def last(self, x: Tensor) -> Tensor:
        """Writes to two buffers."""
        self.zeros_0 += x
        self.ones += x
        return self.zeros_0 + self.ones.sum()


def test_is_zero() -> None:
    for dtype in (torch.float32, torch.int64, torch.bool, torch.bfloat16):
        assert is_zero(torch.zeros(2, 3, dtype=dtype)) and is_zero(torch.zeros((), dtype=dtype))
        assert not is_zero(torch.ones(2, 3, dtype=dtype))
    assert not is_zero(torch.tensor([0.0, -0.0]))


@pytest.mark.parametrize("sizes", [_SIZES[:1], _SIZES[:3], _SIZES])
def test_buffers_are_zero_in_any_memory(sizes: tuple[int, ...]) -> None:
    module, x = Counts(sizes), torch.tensor([2.0])
    file = io.BytesIO()
    write_program(lower(export(Model(module, (x,)))).emitted, file)
    program = parse_program(memoryview(file.getvalue()))
    (method,) = program.methods
    names = [*(f"zeros_{index}" for index in range(len(sizes))), "ones", "negative"]
    assert sorted(each.name for each in state_of(method)) == sorted(names)
    # ones and minus zeros are stored
    assert 160_000 < len(file.getvalue()) < 160_000 + (60_000 if sizes == _SIZES else 30_000)
    assert bool(parts_of_state(method)) == (len(sizes) > 1)
    interpreter = Interpreter(method)
    for _ in range(2):
        torch.testing.assert_close(interpreter.run([x])[0], module(x))


def test_methods_share_buffers_of_zeros() -> None:
    module, x = Counts(_SIZES), torch.tensor([2.0])
    model = Model(module, (x,), methods={"last": Method("last", (x,))})
    file = io.BytesIO()
    write_program(lower(export(model)).emitted, file)
    shared: dict[int, Arena] = {}
    loaded = {
        each.name: Interpreter(each, shared=shared)
        for each in parse_program(memoryview(file.getvalue())).methods
    }
    for name in ("last", "forward", "last"):
        torch.testing.assert_close(loaded[name].run([x])[0], getattr(module, name)(x))
