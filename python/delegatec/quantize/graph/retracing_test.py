# SPDX-License-Identifier: Apache-2.0
"""Programs with control flow, which torch traces a second time, or refuses to."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.while_loop import while_loop

from delegatec.diagnostics import DelegatecError
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.quantize.flow import quantize_model
from delegatec.quantize.graph.retracing import retraced
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized, signal_to_noise


class Swapped(nn.Module):
    """A loop that starts with one tensor twice, and swaps its copies."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        start = torch.zeros((), dtype=torch.int64)
        _, found, _ = while_loop(
            lambda i, a, b: i < 3, lambda i, a, b: (i + 1, b + 1, a * 0.5), (start, x, x)
        )
        return self.layer(found)


@pytest.mark.parametrize("settings", [Settings(), Settings(activation="dynamic_int8")])
def test_programs_that_torch_cannot_trace_again(settings: Settings) -> None:
    with pytest.raises(DelegatecError) as error:
        quantized(Swapped(), (torch.randn(3, 4),), settings)
    (problem,) = error.value.diagnostics
    assert problem.code == "DC134" and "cannot trace the program again" in problem.message


@pytest.mark.parametrize(
    ("module", "error"),
    [("delegatec.quantize.decompose.decompositions", ValueError), ("torch._decomp", DelegatecError)],
)
def test_failures_of_our_own_functions_are_not_torchs(module: str, error: type[Exception]) -> None:
    names: dict[str, Any] = {"__name__": module}
    exec("def fail(x): raise ValueError('no')", names)  # the module of a frame is that of its globals
    program = export(Model(nn.ReLU(), (torch.ones(2),)))["forward"]
    with pytest.raises(error):
        retraced(program, {torch.ops.aten.relu.default: names["fail"]})


class Branches(nn.Module):
    """A branch with branches."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        def first(x: Tensor) -> Any:
            return torch.cond(x.max() > 1, lambda x: x * 2, lambda x: x.cumsum(0), (x,))

        found: Tensor = torch.cond(x.sum() > 0, first, lambda x: x - 1, (self.layer(x),))
        return found


def test_branches_in_branches() -> None:
    torch.manual_seed(0)
    module, x = Branches().eval(), torch.rand(3, 4)
    (program,) = quantized(module, (x,), Settings()).methods.values()
    with torch.no_grad():
        assert signal_to_noise(module(x), program.module(check_guards=False)(x)) > 30


class Copied(nn.Module):
    """State that is written as a whole, by values of another shape and dtype, and by one value twice."""

    last: Tensor
    rows: Tensor
    others: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("last", torch.zeros(2, 3))
        self.register_buffer("rows", torch.zeros(3, 4))
        self.register_buffer("others", torch.zeros(3, 4))

    def forward(self, x: Tensor, index: Tensor) -> tuple[Tensor, ...]:
        self.last.copy_(index)
        self.rows.copy_(x * 2)
        self.others.copy_(self.rows)
        return self.layer(x), self.last == self.last, self.last / 2, self.others - self.rows


@pytest.mark.parametrize("settings", [Settings(), Settings(activation="dynamic_int8")])
def test_copies_to_state_have_its_shape_and_dtype(settings: Settings) -> None:
    module, inputs = Copied().eval(), (torch.randn(3, 4), torch.tensor(7))
    (program,) = quantized(module, inputs, settings).methods.values()
    found, wanted = program.module(check_guards=False)(*inputs), module(*inputs)
    for value, other in zip(found[1:], wanted[1:], strict=True):
        assert (value.dtype, value.shape) == (other.dtype, other.shape)
        assert torch.allclose(value.float(), other.float(), rtol=0.01)


class Heads(nn.Module):
    """Attention of which the result is viewed, as the fused kernel permits, with a mask or without."""

    def forward(self, x: Tensor) -> Tensor:
        heads = x.view(2, 5, 4, 8).transpose(1, 2)
        mask = torch.linspace(-1, 1, 25).view(5, 5)
        found = nn.functional.scaled_dot_product_attention(heads, heads, heads, mask)
        return found.transpose(1, 2).view(2, 5, 32)


@pytest.mark.parametrize(
    "settings", [Settings(), Settings(float_operators=["aten.scaled_dot_product_attention"])]
)
def test_a_view_of_attention(settings: Settings) -> None:
    module, x = Heads(), torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(0))
    methods = export(Model(module, (x,)))
    before = str(methods["forward"].graph)
    (program,) = quantize_model(methods, {"forward": [((x,), {})]}, settings).methods.values()
    assert str(methods["forward"].graph) == before
    assert signal_to_noise(module(x), program.module(check_guards=False)(x)) > 30
