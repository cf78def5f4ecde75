# SPDX-License-Identifier: Apache-2.0
"""Programs that torch exported, with weights of tensor subclasses, compute what the module does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import return_and_correct_aliasing

from delegatec.diagnostics import DelegatecError
from delegatec.edge import to_edge
from delegatec.edge.quantization.affine import AFFINE
from delegatec.edge.testing import assert_computes

aten = torch.ops.aten
_LIBRARY: Final[Any] = torch.library.Library("torchao", "FRAGMENT")  # type: ignore[no-untyped-call]


def _four_bits(
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    group_size: int,
    output_dtype: torch.dtype = torch.bfloat16,
) -> torch.Tensor:
    values = torch.stack((qdata & 15, qdata >> 4), -1).flatten(1).float()
    scale, zeros = (each.t().float().repeat_interleave(group_size, 1) for each in (scale, zero_point))
    return ((values - zeros) * scale).to(output_dtype)


def _in_units(qdata: torch.Tensor, unit: float, output_dtype: torch.dtype) -> torch.Tensor:
    return (qdata * unit).to(output_dtype)


_FUNCTIONS: Final[dict[str, tuple[str, Callable[..., torch.Tensor]]]] = {
    "dequantize_int4_tensor": (
        "(Tensor qdata, Tensor scale, Tensor zero_point, int group_size, ScalarType output_dtype) -> Tensor",
        _four_bits,
    ),
    "weight_in_units": ("(Tensor qdata, float unit, ScalarType output_dtype) -> Tensor", _in_units),
}
for _name, (_schema, _function) in _FUNCTIONS.items():
    _LIBRARY.define(_name + _schema)
    for _key in ("CPU", "Meta"):
        _LIBRARY.impl(_name, _function, _key)


class Wrapped(torch.Tensor):
    """A weight of other tensors; a subclass returns the plain weight."""

    names: tuple[str, ...] = ()
    other: tuple[Any, ...] = ()

    @staticmethod
    def __new__(cls, shape: Sequence[int], *_: torch.Tensor) -> Wrapped:
        made: Wrapped = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=torch.float32)  # type: ignore[attr-defined]
        return made

    def __init__(self, _: Sequence[int], *parts: torch.Tensor) -> None:
        for name, part in zip(self.names, parts, strict=True):
            setattr(self, name, part)

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return list(self.names), None

    @classmethod
    def __tensor_unflatten__(cls, inner: Mapping[str, Any], _: object, shape: Any, __: object) -> Wrapped:
        return cls(shape, *(inner[name] for name in cls.names))

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if function is aten.detach.default:
            same = cls(args[0].shape, *(getattr(args[0], name).detach() for name in cls.names))
            return return_and_correct_aliasing(function, args, dict(kwargs or {}), same)
        if function not in (aten.linear.default, aten.embedding.default, aten.t.default):
            raise NotImplementedError(str(function))
        plain = [arg.plain() if isinstance(arg, Wrapped) else arg for arg in args]
        return function(*plain, **dict(kwargs or {}))

    def plain(self) -> torch.Tensor:
        raise NotImplementedError


class FourBits(Wrapped):
    """A matrix of four bits in groups."""

    names = ("qdata", "scale", "zero_point")

    def plain(self) -> torch.Tensor:
        parts = (getattr(self, name) for name in self.names)
        made: torch.Tensor = torch.ops.torchao.dequantize_int4_tensor(*parts, 4, torch.float32)
        return made


class Units(Wrapped):
    """A matrix by an operator that only its library knows."""

    names = ("qdata",)

    def plain(self) -> torch.Tensor:
        made: torch.Tensor = torch.ops.torchao.weight_in_units(self.qdata, 0.25, torch.float32)  # type: ignore[attr-defined]
        return made


class Tagged(torch.Tensor):
    """A plain tensor of another class."""


def _parameter(weight: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(weight, requires_grad=False)


def _four(zero: Any = None, rows: int = 6) -> nn.Parameter:
    chance = torch.Generator().manual_seed(0)
    qdata = torch.randint(256, (rows, 4), generator=chance, dtype=torch.uint8)
    scale = torch.rand(2, rows, generator=chance) + 0.5
    zeros = torch.full((2, rows), 8.0) if zero is None else torch.rand(2, rows, generator=chance) * zero
    return _parameter(FourBits((rows, 8), qdata, scale, zeros if zero != 15 else zeros.round()))


def _units() -> nn.Parameter:
    return _parameter(Units((6, 8), torch.arange(48, dtype=torch.int8).view(6, 8)))


def _linear(weight: nn.Parameter) -> nn.Module:
    layer = nn.Linear(8, 6)
    layer.weight = weight
    return layer


def _tied() -> nn.Module:
    """An embedding and a layer share a weight."""

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(6, 8)
            self.embedding.weight = _four()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            rows = self.embedding(x.long().clamp(0, 5))
            return nn.functional.linear(rows, self.embedding.weight)

    return Tied()


X: Final = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(1))

MODELS: Final[dict[str, tuple[Callable[[], nn.Module], torch.Tensor, bool]]] = {
    "four bits": (lambda: _linear(_four()), X, True),
    "integral zero points": (lambda: _linear(_four(15)), X, True),
    "fractional zero points": (lambda: _linear(_four(9)), X, True),
    "one row of inputs": (lambda: _linear(_four()), X[0, 0], True),
    "four bits in two layers": (_tied, X[0, :, 0] * 3, True),
    "an unknown operator": (lambda: _linear(_units()), X, False),
    "another class": (lambda: _linear(_parameter(torch.ones(6, 8).as_subclass(Tagged))), X, False),
}


@pytest.mark.parametrize("name", MODELS)
def test_results(name: str) -> None:
    make, x, is_quantized = MODELS[name]
    module = make().eval()
    exported = torch.export.export(module, (x,))
    program = to_edge(exported, preserve=[AFFINE.dequantize_affine.default])
    assert_computes(program, module(x), x)
    targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert (AFFINE.dequantize_affine.default in targets) == is_quantized
    assert all(getattr(target, "namespace", "") != "torchao" for target in targets)
    assert {type(value) for value in program.constants.values()} <= {torch.Tensor, nn.Parameter}


def test_a_shared_weight_is_unpacked_once() -> None:
    program = to_edge(
        torch.export.export(_tied().eval(), (X[0, :, 0],)), preserve=[AFFINE.dequantize_affine.default]
    )
    assert sorted(str(value.dtype) for value in program.constants.values()) == ["torch.float32", "torch.int8"]


class Opaque(Wrapped):
    """Computes with a layer by itself, in a way that cannot be traced."""

    names = ("data_of_it",)

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: object, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if function is aten.linear.default:
            return torch.tensor(args[1].data_of_it.tolist()).sum() * args[0][..., :6]
        return super().__torch_dispatch__(function, types, args, kwargs)


def _no_values() -> torch.export.ExportedProgram:
    with FakeTensorMode():
        return torch.export.export(nn.Linear(8, 6), (torch.empty(2, 8),))


def test_weights_that_are_not_plain() -> None:
    class Layer(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.linear(x, self.weight)

    exported = torch.export.export(Layer(8, 6), (X,))
    exported.state_dict["weight"] = _parameter(Opaque((6, 8), torch.ones(6, 8)))
    with pytest.raises(DelegatecError) as caught:
        to_edge(exported)
    (problem,) = caught.value.diagnostics
    assert problem.code == "DC205" and problem.message.startswith('"weight" is a Opaque tensor')
    assert problem.location is not None

    with pytest.raises(DelegatecError) as caught:
        to_edge(_no_values())
    assert {(each.code, each.message.partition(" ")[0]) for each in caught.value.diagnostics} == {
        ("DC205", '"weight"'),
        ("DC205", '"bias"'),
    }
