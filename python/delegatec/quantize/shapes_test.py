# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.export import Dim

from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.quantize.flow import quantize_model
from delegatec.quantize.settings import Settings
from delegatec.quantize.shapes import dynamic_shapes
from delegatec.quantize.testing import quantized, signal_to_noise


class Sine(nn.Module):
    """The sine."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sin()


def test_a_size_that_the_model_fixes_is_static() -> None:
    """Its expression is a number."""
    shapes = ({1: Dim("columns", min=2, max=8)},)
    (program,) = export(Model(Sine(), (torch.ones(3, 4),), dynamic_shapes=shapes)).values()
    placeholder = next(node for node in program.graph.nodes if node.op == "placeholder")
    value = placeholder.meta["val"]
    rows = value.shape[1].node.shape_env.create_unbacked_symint()
    torch._check(rows == 3)
    with value.fake_mode:
        placeholder.meta["val"] = torch.empty(rows, value.shape[1])
    found = dynamic_shapes(program)
    assert found is not None
    assert [*found[0]] == [1]


def test_a_constant_without_strides() -> None:
    class Expanded(nn.Module):
        """A buffer that is a number, expanded."""

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("number", torch.tensor(2).expand(1))

        def forward(self, x: Tensor) -> Tensor:
            return x.sin() * self.get_buffer("number")

    x = torch.linspace(-1, 1, 16)
    found = quantized(Expanded(), (x,), Settings()).methods["forward"].module(check_guards=False)(x)
    assert signal_to_noise(Expanded()(x), found) > 30


def test_a_sum_whose_factor_is_a_size_stays_in_float() -> None:
    class Sum(nn.Module):
        """A sum of an operand, and of another by its size."""

        def forward(self, x: Tensor) -> Tensor:
            return torch.add(x.sin(), x, alpha=x.shape[0])

    x = torch.linspace(-1, 1, 16)
    methods = export(Model(Sum(), (x,), dynamic_shapes=({0: Dim("n", min=2, max=32)},)))
    program = quantize_model(methods, {"forward": [((x,), {})]}, Settings()).methods["forward"]
    assert signal_to_noise(Sum()(x), program.module(check_guards=False)(x)) > 30
