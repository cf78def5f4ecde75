# SPDX-License-Identifier: Apache-2.0
"""External weights of which there are several files: no pass or delegate takes a value for a constant."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from delegatec.backends import builtin_backends
from delegatec.diagnostics import DelegatecError
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.lowering import lower
from delegatec.program import weights_of, write_flat_tensors, write_program
from delegatec.program.reader import parse_flat_tensors, parse_program
from delegatec.verify.executors import ReferenceExecutor
from tests.oracle.oracle import OracleProgram


class _Adapted(nn.Module):
    """Layers with adapters, whose values are zeros; derived values; branches."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)
        self.register_buffer("down", torch.zeros(4, 16))
        self.register_buffer("up", torch.zeros(16, 4))
        self.register_buffer("factor", torch.ones(16))
        self.register_buffer("unused", torch.ones(16))

    def forward(self, x: Tensor) -> Tensor:
        change = functional.linear(functional.linear(x, self.get_buffer("down")), self.get_buffer("up"))
        return (self.layer(x) + change) * (self.get_buffer("factor") * 2 - 1)


class _Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("down", torch.zeros(16, 16))

    def forward(self, x: Tensor) -> Tensor:
        down = self.get_buffer("down")
        return torch.cond(x.sum() > 0, lambda x: x @ down, lambda x: x - down.sum(0), (x,)) + down[0]


class _Tied(nn.Module):
    """A weight with two names, and the filter of a convolution, which another layer has flat."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(16, 16, bias=False)
        self.two = nn.Linear(16, 16, bias=False)
        self.two.weight = self.one.weight
        self.filter = nn.Conv2d(16, 16, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.two(self.one(x).relu()) + self.filter(x[:, :, None, None])[:, :, 0, 0]


_CASES: Final[dict[str, tuple[Callable[[], nn.Module], tuple[str, ...]]]] = {
    "adapters": (_Adapted, ("down", "up", "factor")),
    "branches": (_Branches, ("down",)),
    "tied": (_Tied, ("two.weight", "filter.weight")),
}
_X: Final = torch.linspace(-1, 2, 5 * 16).view(5, 16)


def _data(tensors: Mapping[str, Tensor]) -> bytes:
    file = io.BytesIO()
    write_flat_tensors(tensors, file)
    return file.getvalue()


def _program(path: Path, backend: str) -> tuple[bytes, bytes]:
    """Returns the program of an archive, and its own data file."""
    model = archive.load(str(path))
    data = _data(weights_of(model.methods, model.external_weights))
    file = io.BytesIO()
    write_program(lower(model.methods, backend, external_weights=model.external_weights).emitted, file)
    return file.getvalue(), data


def _saved(module: nn.Module, names: tuple[str, ...], path: Path) -> Path:
    model = Model(module, (_X,), external_weights=names)
    archive.save(export(model), str(path), external_weights=model.external_weights)
    return path


def test_the_order_of_names_does_not_matter(tmp_path: Path) -> None:
    """A set has another order in each process."""
    make, names = next(iter(_CASES.values()))
    first, second = (
        _saved(make().eval(), order, tmp_path / f"{number}.pt2")
        for number, order in enumerate((names, names[::-1]))
    )
    assert len(names) > 1
    assert archive.load(str(first)).external_weights == archive.load(str(second)).external_weights


def _changed(module: nn.Module, seed: int) -> bytes:
    """Changes all weights of a module but those of its layer; returns them as a data file."""
    torch.manual_seed(seed)
    tensors = {name: value for name, value in module.state_dict().items() if not name.startswith("layer.")}
    for value in tensors.values():
        value.copy_(torch.randn_like(value))
    return _data(tensors)


@pytest.mark.parametrize("backend", ["portable", "xnnpack"])
@pytest.mark.parametrize("name", _CASES)
def test_a_program_computes_with_the_values_of_each_file(name: str, backend: str, tmp_path: Path) -> None:
    make, names = _CASES[name]
    module = make().eval()
    pte, own = _program(_saved(module, names, tmp_path / "model.pt2"), backend)
    for seed in range(3):
        data = _changed(module, seed) if seed else own
        program = OracleProgram(pte, data)
        for x in (_X, -_X):
            torch.testing.assert_close(program.run([x])[0], module(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", ["xnnpack", "vulkan", "mps", "mlx"])
def test_delegates_take_them_as_inputs(backend: str) -> None:
    model = Model(_Adapted(), (_X,), external_weights=("down", "up", "factor"))
    lowered = lower(export(model), backend, external_weights=model.external_weights)
    (delegate,) = lowered.reports["forward"].delegates
    assert sorted(lowered.emitted.external) == ["down", "factor", "up"]
    assert not {"down", "up", "factor"} & {*delegate.module.named_data}
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    program = parse_program(file.getvalue())
    for seed in (1, 2):
        data = parse_flat_tensors(_changed(model.module, seed)).entries
        executor = ReferenceExecutor(program, ["forward"], builtin_backends(), data)
        found = torch.as_tensor(executor.run("forward", [_X])[0])
        torch.testing.assert_close(found, model.module(_X), rtol=1e-5, atol=1e-5)


class _State(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.get_buffer("state").add_(x).clone()


def test_names_of_other_tensors_are_refused() -> None:
    with pytest.raises(DelegatecError, match=r"DC108: external_weights of delegatec.Model is 'dwn'"):
        Model(_Adapted(), (_X,), external_weights=("dwn",))
    with pytest.raises(DelegatecError, match=r'external_weights has "dwn".*\n.*\n.*did you mean'):
        lower(export(Model(_Adapted(), (_X,))), external_weights=("dwn",))
    programs = export(Model(_State(), (torch.zeros(4),)))
    with pytest.raises(DelegatecError, match=r'DC415: external_weights has "state", which a method'):
        lower(programs, external_weights=("state",))
    with pytest.raises(DelegatecError, match=r'DC415: external_weights has "unused", which no method'):
        lower(export(Model(_Adapted(), (_X,))), external_weights=("unused",))
