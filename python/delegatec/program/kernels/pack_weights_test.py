# SPDX-License-Identifier: Apache-2.0
"""Quantized values of weights take as many bits as they need, and are the same after unpacking."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from delegatec.edge import to_edge
from delegatec.edge.printer import print_program
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import assert_computes
from delegatec.program.kernels.check import check_kernels
from delegatec.program.kernels.pack_weights import pack_weights


class Quantized(nn.Module):
    """A constant of integers in float32."""

    quantized: Tensor

    def __init__(self, quantized: Tensor) -> None:
        super().__init__()
        self.register_buffer("quantized", quantized)

    def forward(self, x: Tensor) -> Tensor:
        return self.quantized.to(torch.float32) * 0.5 + x


def _random(low: int, high: int, *shape: int, dtype: torch.dtype = torch.int8) -> Tensor:
    count = torch.Size(shape).numel()
    return (torch.arange(count).remainder(high - low + 1) + low).to(dtype).view(shape)


def _packed(module: nn.Module, x: Tensor) -> tuple[EdgeProgram, int]:
    """Returns the program, and the bytes of its largest constants."""
    program = to_edge(torch.export.export(module, (x,)))
    pack_weights(program)
    assert check_kernels(program) == []
    assert_computes(program, module(x), x, rtol=0, atol=0)
    return program, sum(each.nbytes for each in program.constants.values() if each.dtype is torch.int8)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5, 6])
def test_quantized_values_take_their_bits(bits: int, dtype: torch.dtype) -> None:
    for low in (0, 3) if dtype is torch.uint8 else (-(1 << (bits - 1)), 0, -100):
        module = Quantized(_random(low, low + (1 << bits) - 1, 128, 256, dtype=dtype))
        _, size = _packed(module, torch.zeros(1))
        assert size == 128 * 256 * bits // 8


@pytest.mark.parametrize("shape", [(64, 255), (3, 64, 64), (5, 3, 2048), (1, 8192)])
def test_any_dimension_is_divided(shape: tuple[int, ...]) -> None:
    _, size = _packed(Quantized(_random(-8, 7, *shape)), torch.zeros(1))
    assert size == torch.Size(shape).numel() // 2


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_views_are_of_unpacked_values(dtype: torch.dtype) -> None:
    class Groups(Quantized):
        def forward(self, x: Tensor) -> Tensor:
            return self.quantized.view(4, 64, 64).float() + x

    module, x = Groups(_random(0, 15, 64, 256, dtype=dtype)), torch.zeros(1)
    program = to_edge(torch.export.export(module, (x,)), kept=["quantized"])
    pack_weights(program)
    assert "view" in print_program(program) and "u8[" not in print_program(program)
    assert_computes(program, module(x), x, rtol=0, atol=0)
    assert sum(each.nbytes for each in program.constants.values()) == 64 * 128


@pytest.mark.parametrize("bits", [2, 4])
def test_rows_are_gathered_before_they_are_unpacked(bits: int) -> None:
    class Gathers(Quantized):
        def forward(self, x: Tensor) -> Tensor:
            return torch.index_select(self.quantized, 0, x).float()

    module = Gathers(_random(0, (1 << bits) - 1, 512, 64))
    program, size = _packed(module, torch.tensor([3, 511, 0, 7, 1]))
    assert size == 512 * 64 * bits // 8
    assert "cat" in print_program(program) and "[512, 64]" not in print_program(program)


@pytest.mark.parametrize("low", [-8, -4, 0, 100])
@pytest.mark.parametrize("columns", [64, 65])
def test_a_table_of_four_bits_has_the_form_of_a_layer(low: int, columns: int) -> None:
    """Two neighbors in a byte, the first in the low bits, as in weights of XNNPACK."""

    class Gathers(Quantized):
        def forward(self, x: Tensor) -> Tensor:
            return torch.index_select(self.quantized, 0, x).float()

    table = _random(low, low + 15, 512, columns)[:, torch.randperm(columns)]
    program, _ = _packed(Gathers(table), torch.tensor([3, 511, 0, 7, 1]))
    packed = [each for each in program.constants.values() if each.numel() == table.numel() // 2]
    assert len(packed) == 1 - columns % 2
    for each in packed:
        values = (each[:, :, None] >> torch.tensor([0, 4], dtype=torch.int8)) & 15
        assert torch.equal(values.view(table.shape), table - low)


@pytest.mark.parametrize(
    "quantized",
    [
        pytest.param(_random(-64, 63, 64, 256), id="seven bits"),
        pytest.param(_random(-8, 7, 16, 64), id="few"),
        pytest.param(_random(-8, 7, 33, 333), id="odd"),
        pytest.param(_random(200, 215, 64, 256, dtype=torch.uint8), id="beyond int8"),
        pytest.param(_random(-8, 7, 0, 256), id="none"),
    ],
)
def test_others_stay(quantized: Tensor) -> None:
    module = Quantized(quantized)
    program = to_edge(torch.export.export(module, (torch.zeros(1),)))
    before = print_program(program)
    pack_weights(program)
    assert print_program(program) == before


def test_integers_that_are_used_as_such_stay() -> None:
    class Integers(Quantized):
        def forward(self, x: Tensor) -> Tensor:
            return self.quantized + x

    module = Integers(_random(-8, 7, 64, 256))
    program = to_edge(torch.export.export(module, (torch.zeros(1, dtype=torch.int8),)))
    before = print_program(program)
    pack_weights(program)
    assert print_program(program) == before
