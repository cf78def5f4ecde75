# SPDX-License-Identifier: Apache-2.0
"""State of a delegate: what it keeps, what it writes in place, and what it must compute or copy."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import pytest
import torch

from delegatec.backends.common.testing import Compiled, floats
from delegatec.backends.mlx.blob import read_blob
from delegatec.backends.mlx.building.draft import Draft
from delegatec.backends.mlx.building.state import keep_state
from delegatec.backends.mlx.building.values import Array, Operation
from delegatec.backends.mlx.testing import PRESERVED, compile_program, operations
from delegatec.edge import to_edge
from delegatec.edge.testing import export


class Module(torch.nn.Module):
    """A module with two buffers, which are zero at first."""

    def __init__(self, function: Callable[..., torch.Tensor], initial: float = 0.0) -> None:
        super().__init__()
        self.function = function
        self.a: torch.Tensor
        self.b: torch.Tensor
        self.register_buffer("a", torch.full((2, 3), initial))
        self.register_buffer("b", torch.full((2, 3), initial))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.a, self.b, x)


def _counts(a: torch.Tensor, _: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    a.add_(1.0)
    return x * a


def _hides(a: torch.Tensor, _: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    y = x * 2 + a
    a.copy_(x * 3)
    return y


def _returns_old(a: torch.Tensor, b: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    old = a.clone()
    mixed = b * 1.5 + x
    b.copy_(a * 2)
    a.copy_(mixed)
    return old + b


def _updates_rows(a: torch.Tensor, _: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    a[1:] = x[:1] * 2
    return a + 1


def _branches(a: torch.Tensor, _: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A branch may return the input."""
    chosen = torch.cond(x.sum() > 0, lambda a, x: a + x, lambda _, x: x.clone(), (a, x))
    a.copy_(chosen)
    return x * 2


def _compiled(module: torch.nn.Module) -> Compiled:
    """Lowers a module that is the only method of its model."""
    program = to_edge(export(copy.deepcopy(module), floats(2, 3)), preserve=PRESERVED)
    program.owns_state = True
    return compile_program(program)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (_counts, "Add Multiply"),
        (_hides, "Multiply Add Multiply Reshape Take AsType Item"),
        (_returns_old, ""),
        (_updates_rows, ""),
        (_branches, "Sum Greater AsType Item If Multiply Maximum Reshape Take AsType Item"),
    ],
)
def test_state_is_kept(function: Callable[..., torch.Tensor], expected: str) -> None:
    module = Module(function)
    compiled = _compiled(module)
    found = operations(compiled.blobs()[0])
    assert found == expected.split() or not expected
    # only a value that is known before the last use of the old one is written at the end
    assert ("IdCopy" in found) == (function is _returns_old)
    for seed in range(4):
        x = floats(2, 3, seed=seed)
        torch.testing.assert_close(compiled(x)[0], module(x))


def test_other_initial_values_stay_outside() -> None:
    """The runtime's buffers are zero at first."""
    graph = read_blob(memoryview(_compiled(Module(_counts, 1.0)).blobs()[0]))
    assert (graph.numBuffers, len(graph.inputs), len(graph.outputs)) == (0, 2, 2)
    graph = read_blob(memoryview(_compiled(Module(_counts)).blobs()[0]))
    assert (graph.numBuffers, len(graph.inputs), len(graph.outputs)) == (1, 1, 1)


def _draft(
    operations: Sequence[tuple[str, dict[str, object]]], x: Array, out: Array, *buffers: Array
) -> Draft:
    draft = Draft()
    draft.inputs.append(x)
    draft.outputs.append(out)
    draft.buffers += buffers
    for name, fields in operations:
        draft.append(Operation(name, dict(fields)))
    return draft


def _array() -> Array:
    return Array(torch.float32, (2,))


def test_an_input_is_copied() -> None:
    """Also a view of one: the caller may write to its memory before the next run."""
    x, view, out, buffer = _array(), _array(), _array(), _array()
    reshape = ("Reshape", {"x": x, "out": view, "shape": []})
    draft = _draft([reshape, ("Add", {"a": x, "b": buffer, "out": out})], x, out, buffer)
    keep_state(draft, {buffer: view})
    draft.drop_dead_code()
    assert [each.name for each in draft.main.operations][:3] == ["Reshape", "Add", "Maximum"]
    assert draft.main.operations[2].fields["out"] is buffer


def test_exchanged_buffers() -> None:
    """Each needs the old value of the other."""
    x, out, first, second = _array(), _array(), _array(), _array()
    draft = _draft([("Add", {"a": x, "b": first, "out": out})], x, out, first, second)
    keep_state(draft, {first: second, second: first})
    writes = [
        (each.fields["x"], each.fields["out"]) for each in draft.main.operations if each.name == "IdCopy"
    ]
    read = [source for source, _ in writes]
    for buffer in (first, second):
        written = next(index for index, (_, out) in enumerate(writes) if out is buffer)
        assert all(source is not buffer for source in read[written + 1 :])


def test_an_old_value_that_is_returned() -> None:
    x, new, buffer = _array(), _array(), _array()
    draft = _draft([("Add", {"a": x, "b": buffer, "out": new})], x, buffer, buffer)
    keep_state(draft, {buffer: new})
    assert draft.outputs[0] is not buffer
    draft.drop_dead_code()
    (copied,) = (each for each in draft.main.operations if each.fields["out"] is draft.outputs[0])
    assert draft.main.operations.index(copied) < next(
        index for index, each in enumerate(draft.main.operations) if each.fields["out"] is buffer
    )
