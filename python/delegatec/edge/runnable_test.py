# SPDX-License-Identifier: Apache-2.0
"""Programs run with separate state, which methods share."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.export import export

from delegatec.edge.runnable import runnable

X = torch.ones(1, 2)


class Halving(nn.Module):
    """Halves its weight, and adds to a buffer."""

    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2, bias=False)
        self.layer.weight.data.fill_(8.0)
        self.register_buffer("total", torch.zeros(1))
        self.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        self.layer.weight.mul_(0.5)
        self.total.add_(1)
        result: Tensor = self.layer(x) + self.total
        return result


class Reading(Halving):
    """Reads both."""

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layer(x) + self.total
        return result


def test_methods_share_state_that_is_not_the_programs() -> None:
    programs = [export(Reading(), (X,)), export(Halving(), (X,))]
    state: dict[str, Tensor] = {}
    read, halve = (runnable(program, state) for program in programs)
    results = [float(module(X)[0, 0]) for module in (read, halve, read, halve, read)]
    assert results == [16, 8 + 1, 8 + 1, 4 + 2, 4 + 2]
    for program in programs:
        assert program.state_dict["layer.weight"].eq(8).all() and not program.state_dict["total"].any()


def test_only_tensors_that_calls_write_to_are_copied() -> None:
    """The weights of a large model are as large as its file."""
    for kind, is_copied in ((Reading, False), (Halving, True)):
        program = export(kind(), (X,))
        module = runnable(program, {})
        tensors = {**dict(module.named_buffers()), **dict(module.named_parameters())}
        for name, value in program.state_dict.items():
            assert (tensors[name].data_ptr() != value.data_ptr()) is is_copied


@pytest.mark.parametrize("name", ["graph", "code", "meta"])
def test_modules_with_names_that_torch_s_modules_have(name: str) -> None:
    """Weights have the names of the model outside."""

    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            setattr(self, name, Halving())
            setattr(self, f"{name}_", nn.Linear(2, 2))

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = getattr(self, f"{name}_")(getattr(self, name)(x))
            return result

    module = Named().requires_grad_(False)
    exported = export(copy.deepcopy(module), (X,))
    state: dict[str, Tensor] = {}
    program = runnable(exported, state)
    assert {*state} == {*exported.state_dict}
    for _ in range(2):
        torch.testing.assert_close(program(X), module(X))
    assert float(state[f"{name}.total"]) == 2 and float(exported.state_dict[f"{name}.total"]) == 0
