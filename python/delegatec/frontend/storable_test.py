# SPDX-License-Identifier: Apache-2.0
"""Our reader and torch's read all that export writes, with equal results; export refuses the rest."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch.nn.attention.flex_attention import flex_attention
from torch.utils import _pytree as pytree

from delegatec.diagnostics import DelegatecError
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.lowering import lower

X = torch.linspace(-1, 2, 12).reshape(3, 4)
SPECIAL = [",", ";", ",;", "(", "a(,", ")(", "[,]", "#", "%s{}", "/", ":"]
CONTROL = ['"', "\\", "a b", "\n", "\t", "\0", "\u2028", "\ud800", "\U0001f600"]
KEYS = [*SPECIAL, *CONTROL, "class", "é", "\ufb01", "x" * 2000]


class Function(nn.Module):
    """A module whose forward is a function of itself and the inputs."""

    def __init__(self, function: Callable[..., Any], **modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


class Keyed(nn.Module):
    """Modules, parameters, and buffers of any names; some buffers are state."""

    def __init__(self) -> None:
        super().__init__()
        self.items = nn.ModuleDict({name: nn.Linear(4, 4) for key in KEYS for name in (key, f"{key}_")})
        for key in KEYS:
            self.register_buffer(f"b{key}", torch.zeros(4))
            self.register_buffer(f"n{key}", torch.ones(4), persistent=False)
            self.register_parameter(f"p{key}", nn.Parameter(torch.randn(4)))

    def forward(self, x: Tensor) -> Any:
        for key in KEYS:
            getattr(self, f"b{key}").add_(1)
            x = self.items[key](x) + self.items[f"{key}_"](x).tanh()
            x = x * getattr(self, f"n{key}") * getattr(self, f"p{key}") + getattr(self, f"b{key}")
        return x


def read(model: Model, folder: Path) -> Any:
    """Exports a model, reads the program with both readers, and lowers it.

    Returns:
        The results of the program that our reader returns.
    """
    file = str(folder / "model.pt2")
    archive.save(export(model), file)
    method = next(iter(model.all_methods().values()))
    args, kwargs = method.example_inputs, dict(method.example_kwargs or {})
    expected = pytree.tree_leaves(torch.export.load(file).module()(*args, **kwargs))
    program = archive.load(file).methods["forward"]
    # They are mapped, and a program with state would write to them.
    program._state_dict = copy.deepcopy(program.state_dict)
    found = program.module()(*args, **kwargs)
    for one, other in zip(pytree.tree_leaves(found), expected, strict=True):
        torch.testing.assert_close(one, other)
    lower(archive.load(file).methods)
    return found


def test_any_name_of_a_module_or_weight_is_read(tmp_path: Path) -> None:
    module = Keyed()
    found = read(Model(module, (X,)), tmp_path)
    for key in KEYS:
        getattr(module, f"b{key}").zero_()
    torch.testing.assert_close(found, module(X))


def test_names_that_differ_in_replaced_characters_stay_different(tmp_path: Path) -> None:
    keys = ('"', "\\", "_", "__1", "\n")
    module = nn.ModuleDict({key: nn.Linear(4, 4) for key in keys})
    model = Function(lambda self, x: [self.items[key](x) for key in keys], items=module)
    for one, other in zip(read(Model(model, (X,)), tmp_path), model(X), strict=True):
        torch.testing.assert_close(one, other)


def test_deeply_nested_modules_are_read(tmp_path: Path) -> None:
    module: nn.Module = nn.Linear(4, 4)
    for _ in range(150):
        module = Function(lambda self, x: self.a_layer_inside(x), a_layer_inside=module)
    torch.testing.assert_close(read(Model(module, (X,)), tmp_path), module(X))


def test_any_key_of_a_dict_is_read(tmp_path: Path) -> None:
    keys = [*KEYS, 0, 1.5, None, (1, 2), torch.int8]
    inputs = {key: X + number for number, key in enumerate(keys)}
    module = Function(lambda _, values: {key: values[key] * 2 for key in reversed(keys)})
    file = str(tmp_path / "model.pt2")
    archive.save(export(Model(module, (inputs,))), file)
    program = archive.load(file).methods["forward"]
    found = torch.fx.Interpreter(program.graph_module).run(*pytree.tree_leaves(program.example_inputs))
    for number, value in enumerate(reversed(found)):
        assert torch.equal(value, (X + number) * 2)
    lower({"forward": program})


CALLS: dict[str, Callable[..., Any]] = {
    "vmap": lambda _, x: torch.vmap(lambda row: row * 2 + row.sum())(x),
    "vmap of a layer": lambda self, x: torch.vmap(self.layer)(x),
    "nested vmap": lambda _, x: torch.vmap(torch.vmap(lambda number: number * 2 + 1))(x),
    "vmap in chunks": lambda _, x: torch.vmap(lambda row: row.softmax(0), chunk_size=2)(x),
    "jvp": lambda _, x: torch.func.jvp(torch.sin, (x,), (x,))[1],
    "associative_scan": lambda _, x: associative_scan(torch.add, x, 0, combine_mode="generic"),
    "sizes of a tensor on meta": lambda _, x: x.reshape(torch.empty(12, device="meta").shape),
    "assertion with quotes": lambda _, x: (torch._assert_async(x.sum() > -9, 'not "so"\\\n'), x * 2)[1],
    "infinite number": lambda _, x: x.clamp(max=float("inf")) * 2,
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_read(tmp_path: Path, name: str) -> None:
    module = Function(CALLS[name], layer=nn.Linear(4, 4))
    torch.testing.assert_close(read(Model(module, (X,)), tmp_path), module(X))


def test_vmap_beside_writes_to_a_buffer_with_two_names(tmp_path: Path) -> None:
    def function(self: Any, x: Tensor) -> Any:
        self.other.t.add_(self.other.t + 1)
        return torch.vmap(lambda row: row * 2 + row.sum())(x) * self.other.t

    cell = nn.Module()
    cell.register_buffer("t", torch.ones(4))
    module = Function(function, cell=cell, other=nn.Module())
    module.other.register_buffer("t", cell.t)
    found = read(Model(module, (X,)), tmp_path)
    torch.testing.assert_close(found, torch.vmap(lambda row: row * 2 + row.sum())(X) * 3)


def test_vmap_beside_a_write_that_a_view_sees(tmp_path: Path) -> None:
    """torch retraces the program, and takes the view for a new tensor."""

    def function(self: Any, x: Tensor) -> Any:
        row = torch.broadcast_tensors(self.t[1], self.t[0])[0]
        self.t.add_(1)
        return torch.vmap(lambda each: each * 2)(x) + row

    module = Function(function)
    module.register_buffer("t", torch.ones(3, 4))
    found = read(Model(module, (X,)), tmp_path)
    torch.testing.assert_close(found, X * 2 + 2)


def test_vmap_beside_a_write_to_the_result_of_a_dropout(tmp_path: Path) -> None:
    def function(self: Any, x: Tensor) -> Any:
        y = x * 2
        self.dropout(y).mul_(3)
        return torch.vmap(lambda each: each * 2)(x) + y

    found = read(Model(Function(function, dropout=nn.Dropout()).eval(), (X,)), tmp_path)
    torch.testing.assert_close(found, X * 8)


def test_vmap_next_to_a_copy_of_another_shape(tmp_path: Path) -> None:
    def function(self: Any, x: Tensor) -> Any:
        self.t.copy_(x.max().long())
        self.u.copy_(self.t)
        return torch.vmap(lambda each: each * 2)(x) + self.t / 4 + self.u

    module = Function(function)
    module.register_buffer("t", torch.ones(3, 4))
    module.register_buffer("u", torch.ones(3, 4))
    found = read(Model(module, (X + 9,)), tmp_path)
    torch.testing.assert_close(found, (X + 9) * 2 + (X + 9).max().floor() * 1.25)


REFUSED: dict[str, tuple[Callable[..., Any], str, str]] = {
    "flex_attention": (
        lambda _, x: flex_attention(x[None, None], x[None, None], x[None, None]),
        "DC119",
        "cannot store the call of torch.ops.higher_order.flex_attention",
    ),
    "values on meta": (
        lambda _, x: (x * 2, torch.zeros_like(x, device="meta")),
        "DC119",
        "a tensor on meta",
    ),
    "large number": (lambda _, x: (x * 2, 2**70), "DC119", "output 1 is 1180591620717411303424"),
    "power of a size": (lambda _, x: x * 2 ** x.shape[0], "DC119", "has a size that a .pt2 cannot store"),
    "condition of sizes": (lambda _, x: (x, x.shape[0] > 3), "DC119", "output 1 is a condition of sizes"),
    "vmap in a body": (
        lambda _, x: torch.cond(x.sum() > 0, torch.vmap(torch.sin), torch.cos, (x,)),
        "DC111",
        "calls torch.vmap where torch.export cannot follow it",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_export_refuses_what_cannot_be_read(name: str) -> None:
    function, code, words = REFUSED[name]
    shapes = {"args": ({0: torch.export.Dim("n", min=2, max=16)},)} if "size" in name else None
    with pytest.raises(DelegatecError) as raised:
        export(Model(Function(function), (X,), dynamic_shapes=shapes))
    assert [(each.code, words in each.message) for each in raised.value.diagnostics] == [(code, True)]


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, "\ud800"])
def test_constant_inputs_are_values_that_a_file_can_store(value: Any) -> None:
    with pytest.raises(DelegatecError) as raised:
        Model(Function(lambda _, x, value: x * 2), (X, value))
    assert [each.code for each in raised.value.diagnostics] == ["DC109"]


@pytest.mark.parametrize("value", [2**63 - 1, math.inf, -0.0, "mean", None, True])
def test_constant_inputs_are_read(tmp_path: Path, value: Any) -> None:
    found = read(Model(Function(lambda _, x, value: x * 2), (X, value)), tmp_path)
    torch.testing.assert_close(found, X * 2)


@pytest.mark.parametrize("name", ["a b", "class", '"', "0"])
def test_names_of_keyword_arguments_are_identifiers(name: str) -> None:
    with pytest.raises(DelegatecError) as raised:
        Model(Function(lambda _, x, **more: x), (X,), {name: X})
    assert [each.code for each in raised.value.diagnostics] == ["DC108"]


def test_an_attribute_that_tracing_adds_does_not_stay() -> None:
    def forward(self: Any, x: Tensor) -> Any:
        if not hasattr(self, "cached"):
            self.cached = x * 2
        return x + self.cached

    module = Function(forward)
    with pytest.raises(DelegatecError, match=r"DC124.*'cached'"):
        export(Model(module, (X,)))
    program = export(Model(module, (X,)), samples=0)["forward"]
    torch.testing.assert_close(program.module()(X), X * 3)
    assert not hasattr(module, "cached")
