# SPDX-License-Identifier: Apache-2.0
"""A program as one delegate: called, printed, exported again, and lowered inside another model."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from delegatec.delegation import BackendRegistry, LoweredModule, LoweredProgram, call_delegate, to_backend
from delegatec.delegation.testing import NET_ARGS, SPECS, EagerBackend, Net, SupportsAllBut, edge
from delegatec.diagnostics import DelegatecError
from delegatec.edge import EdgeProgram, print_program, to_edge
from delegatec.edge.module import EdgeModule

aten = torch.ops.aten


class Odd(torch.nn.Module):
    """Returns an argument, a constant and a scalar; its arguments are nested, and one is unused."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, unused: torch.Tensor, pair: tuple[torch.Tensor, torch.Tensor]) -> dict[str, Any]:
        result = self.inner(pair[1]).relu() + pair[0]
        return {"twice": (result, result), "same": pair[1], "weight": self.inner.weight, "number": 3}


class Around(torch.nn.Module):
    """A user's model that contains a lowered program."""

    def __init__(self, lowered: torch.nn.Module) -> None:
        super().__init__()
        self.before = torch.nn.Linear(4, 4)
        self.lowered = lowered

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        result = self.lowered(self.before(x), y)
        return result["a"].sin(), result["c"]


def lowered(module: torch.nn.Module, args: tuple[Any, ...], dynamic_shapes: Any = None) -> LoweredProgram:
    exported = torch.export.export(module.eval(), args, dynamic_shapes=dynamic_shapes)
    registry = BackendRegistry([EagerBackend()])
    return to_backend("EagerBackend", to_edge(exported), SPECS, registry=registry)


def calls(program: EdgeProgram) -> list[torch.fx.Node]:
    return [node for node in program.graph.nodes if node.target is call_delegate]


def test_it_is_called_like_the_method() -> None:
    module, args = Odd(), (torch.zeros(1), (torch.randn(4), torch.randn(2, 4)))
    with torch.no_grad():
        torch.testing.assert_close(lowered(module, args)(*args), module(*args))
    with pytest.raises(ValueError, match=r"takes 3 inputs \(unused, pair_0, pair_1\), got 2"):
        lowered(module, args)(*args[1])


class Flat(torch.nn.Module):
    """A view of the input."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"flat": x.reshape(2, 60) * 2}


def test_inputs_may_have_any_strides() -> None:
    image = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    torch.testing.assert_close(lowered(Flat(), (image,))(image), Flat()(image))


def test_state_is_kept_from_call_to_call() -> None:
    eager, program = Net(), edge(Net(), NET_ARGS)
    registry = BackendRegistry([EagerBackend()])
    eager.load_state_dict({**eager.state_dict(), **weights(program)})
    module = to_backend("EagerBackend", program, SPECS, registry=registry)
    for _ in range(2):
        with torch.no_grad():
            torch.testing.assert_close(module(*NET_ARGS), eager(*NET_ARGS))
    torch.testing.assert_close(module.state_total, eager.total)
    assert eager.total.abs().max() > 0.1
    assert not weights(program)["total"].any()


def weights(program: EdgeProgram) -> dict[str, torch.Tensor]:
    """Constants have their names in the model; folding is undone."""
    found = {name: program.constants[key] for key, name in program.names_in_model().items()}
    return {
        name.removesuffix(".permute"): value.T if name.endswith(".permute") else value
        for name, value in found.items()
    }


def test_it_prints_the_delegate_and_the_original() -> None:
    text = repr(lowered(Odd(), (torch.zeros(1), (torch.randn(4), torch.randn(2, 4)))))
    assert text.startswith("LoweredProgram(\n  EagerBackend, blob of 1 B, settings: level=b'\\x01'\n")
    assert "forward(%unused: f32[1], %pair_0: f32[4], %pair_1: f32[2, 4]):" in text
    assert "aten.relu.default" in text and "lowered_program_test.py" in text


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_it_is_exported_again_and_lowered(strict: bool, dynamic: bool) -> None:
    size = {0: torch.export.Dim("size", min=2, max=8)}
    shapes = {"x": size, "y": None} if dynamic else None
    module = Around(lowered(Stateless(), NET_ARGS, shapes)).eval()
    exported = torch.export.export(module, NET_ARGS, dynamic_shapes=shapes, strict=strict)
    with torch.no_grad():
        wanted = module(*NET_ARGS)
    torch.testing.assert_close(exported.module()(*NET_ARGS), wanted)

    program = to_edge(exported)
    (call,) = calls(program)
    assert call.meta["debug_handle"] >= 1
    assert [str(user.meta["val"].dtype) for user in call.users] == ["torch.float32"] * 2
    torch.testing.assert_close(EdgeModule(program)(*NET_ARGS), wanted)

    # Another backend lowers the rest; the delegate does not change.
    other = EagerBackend("Other")
    report = to_backend(program, SupportsAllBut(backend_id="Other"), registry=BackendRegistry([other])).report
    modules = [program.graph_module.get_submodule(str(node.args[0])) for node in calls(program)]
    assert [module.backend_id for module in modules] == ["Other", "EagerBackend", "Other"]
    assert report.nodes_left == 0 and len(report.delegates) == 2
    torch.testing.assert_close(EdgeModule(program)(*NET_ARGS), wanted)
    assert "delegatec_call_delegate" in print_program(program)


@pytest.mark.parametrize("strict", [False, True])
def test_state_survives_a_second_export(strict: bool) -> None:
    module = Around(lowered(Net(), NET_ARGS)).eval()
    program = to_edge(torch.export.export(module, NET_ARGS, strict=strict))
    assert [spec.target for spec in program.input_specs if spec.arg.name in program.mutated_inputs()] == [
        "lowered.state_total"
    ]
    again = EdgeModule(program)
    for _ in range(2):
        with torch.no_grad():
            torch.testing.assert_close(again(*NET_ARGS), module(*NET_ARGS))


class Stateless(torch.nn.Module):
    """`Net` without state."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        h = self.first(x).relu()
        return {"a": torch.cos(h) + y, "b": y, "c": h}


def test_a_partition_shows_its_original_nodes() -> None:
    program = edge(Net(), NET_ARGS)
    reference = EdgeModule(edge(Net(), NET_ARGS))
    report = to_backend(
        program, SupportsAllBut(aten.sin.default), registry=BackendRegistry([EagerBackend()])
    ).report
    first, second = (delegate.module for delegate in report.delegates)
    assert isinstance(first, LoweredModule)
    text = print_program(first.original_program)
    assert "@first.bias: f32[4]" in text and "aten.relu.default" in text and "aten.sin" not in text
    # As a separate program, it has the same results as the delegate.
    inputs = [torch.randn(*node.meta["val"].shape) for node in second.original.inputs]
    torch.testing.assert_close(EdgeModule(second.original_program)(*inputs), second(*inputs))
    assert reference(*NET_ARGS).keys() == EdgeModule(program)(*NET_ARGS).keys()


def test_a_program_that_computes_nothing_is_rejected() -> None:
    class Nothing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    with pytest.raises(DelegatecError, match="forward computes nothing") as error:
        lowered(Nothing(), (torch.randn(2),))
    assert [d.code for d in error.value.diagnostics] == ["DC405"]


def test_gradients_do_not_pass() -> None:
    module = lowered(Stateless(), NET_ARGS)
    result = module(NET_ARGS[0].clone().requires_grad_(), NET_ARGS[1])
    assert not result["a"].requires_grad
