# SPDX-License-Identifier: Apache-2.0
"""All forms of `dynamic_shapes` that torch.export accepts."""

from __future__ import annotations

from typing import Any

import torch

import delegatec

NET, X = torch.nn.Linear(3, 3), (torch.rand(2, 3),)


def exported(shapes: Any, module: torch.nn.Module = NET, inputs: tuple[Any, ...] = X) -> object:
    return delegatec.export(delegatec.Model(module, inputs, dynamic_shapes=shapes))


class Nested(torch.nn.Module):
    def forward(self, pair: tuple[torch.Tensor, ...], extra: dict[str, torch.Tensor]) -> torch.Tensor:
        return pair[0] + extra["y"]


class Variable(torch.nn.Module):
    def forward(self, x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        return x + sum(others)


NESTED = ((X[0],), {"y": X[0]})


def test_right_dynamic_shapes() -> None:
    batch = torch.export.Dim("b", max=4)
    for shapes in (
        ({0: batch},),
        ((batch, None),),
        [[batch, None]],
        {"input": {0: batch}},
        (None,),
        {"input": None},
    ):
        assert exported(shapes)
    assert exported((({0: batch},), {"y": {0: batch}}), Nested(), NESTED)
    for rest in (({0: batch}, {0: batch}), [[batch, None], {0: batch}], ({0: batch}, (batch, None))):
        assert exported(({0: batch}, tuple(rest)), Variable(), X * 3)
        assert exported({"x": {0: batch}, "others": tuple(rest)}, Variable(), X * 3)
