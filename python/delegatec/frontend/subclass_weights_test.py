# SPDX-License-Identifier: Apache-2.0
"""Weights of tensor subclasses are stored as the plain tensors inside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import return_and_correct_aliasing

from delegatec.diagnostics import DelegatecError
from delegatec.edge import to_edge
from delegatec.edge.testing import assert_computes
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.frontend.model import Model

aten = torch.ops.aten
X = torch.rand(2, 4)


class Scaled(torch.Tensor):
    """A tensor that is the product of two others, of which the second may be one of these again."""

    @staticmethod
    def __new__(cls, qdata: torch.Tensor, scale: torch.Tensor) -> Scaled:
        wrapped: Scaled = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, qdata.shape, dtype=torch.float32
        )
        return wrapped

    def __init__(self, qdata: torch.Tensor, scale: torch.Tensor) -> None:
        self.qdata, self.scale = qdata, scale

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["qdata", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner: Mapping[str, Any], *_: object) -> Scaled:
        return cls(inner["qdata"], inner["scale"])

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if function is aten.detach.default:
            return return_and_correct_aliasing(
                function, args, dict(kwargs or {}), cls(args[0].qdata.detach(), args[0].scale.detach())
            )
        plain = [arg.plain() if isinstance(arg, Scaled) else arg for arg in args]
        return function(*plain, **dict(kwargs or {}))

    @classmethod
    def __torch_function__(
        cls, function: Any, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if function is torch.nn.functional.linear:
            args = [arg.plain() if isinstance(arg, Scaled) else arg for arg in args]
            return function(*args, **dict(kwargs or {}))
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **dict(kwargs or {}))

    def plain(self) -> torch.Tensor:
        scale = self.scale.plain() if isinstance(self.scale, Scaled) else self.scale
        return self.qdata.float() * scale


def scaled(nested: bool = False) -> Scaled:
    qdata = torch.arange(-6, 6, dtype=torch.int8).view(3, 4)
    scale = torch.rand(3, 1)
    return Scaled(qdata, Scaled(torch.ones(3, 1, dtype=torch.int8), scale) if nested else scale)


def model(nested: bool = False) -> torch.nn.Module:
    layer = torch.nn.Sequential(torch.nn.Linear(4, 3))
    layer[0].weight = torch.nn.Parameter(scaled(nested), requires_grad=False)
    return layer


@pytest.mark.parametrize("nested", [False, True])
def test_parts_are_named_after_their_weight(nested: bool, tmp_path: Path) -> None:
    module = model(nested)
    expected = module(X)
    archive.save(export(Model(module, (X,))), str(tmp_path / "a.pt2"))
    (program,) = archive.load(str(tmp_path / "a.pt2")).methods.values()
    inner = ["0.weight.scale.qdata", "0.weight.scale.scale"] if nested else ["0.weight.scale"]
    assert sorted(program.state_dict) == sorted(["0.bias", "0.weight.qdata", *inner])
    assert program.state_dict["0.weight.qdata"].dtype is torch.int8
    assert all(type(value.data) is torch.Tensor for value in program.state_dict.values())
    torch.testing.assert_close(program.module()(X), expected)
    assert_computes(to_edge(program), expected, X)


def test_a_shared_weight_is_stored_once() -> None:
    class Shared(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(scaled(), requires_grad=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            linear = torch.nn.functional.linear
            return linear(x, self.weight) + linear(x + 1, self.weight)

    module = Shared()
    expected = module(X)
    (program,) = export(Model(module, (X,))).values()
    assert sorted(program.state_dict) == ["weight.qdata", "weight.scale"]
    assert_computes(to_edge(program), expected, X)


@pytest.mark.parametrize("nested", [False, True])
def test_operators_below_the_level_of_export_are_traced(nested: bool) -> None:
    """The class implements `embedding` for dispatch only, so that the graph has it with the whole weight."""

    class Words(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(scaled(nested), requires_grad=False)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            rows = torch.nn.functional.embedding(ids, self.weight)
            return torch.nn.functional.linear(rows, self.weight)

    module, ids = Words(), torch.tensor([[2, 0], [1, 2]])
    expected = module(ids)
    shapes = ({1: torch.export.Dim("length", max=8)},)
    (program,) = export(Model(module, (ids,), dynamic_shapes=shapes)).values()
    inner = ["weight.scale.qdata", "weight.scale.scale"] if nested else ["weight.scale"]
    assert sorted(program.state_dict) == sorted(["weight.qdata", *inner])
    torch.testing.assert_close(program.module()(ids), expected)
    assert_computes(to_edge(program), expected, ids)


def test_a_weight_that_is_returned_is_refused() -> None:
    class Returns(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(scaled(), requires_grad=False)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x + 1, self.weight

    with pytest.raises(DelegatecError, match=r"DC119[^\n]*Scaled[\s\S]*dequantize"):
        export(Model(Returns(), (X,)))


def test_a_module_of_torch_export_has_no_modes() -> None:
    graph = torch.export.export(torch.nn.Linear(4, 3), (X,)).module()
    (program,) = export(Model(graph, (X,))).values()
    torch.testing.assert_close(program.module()(X), graph(X))
