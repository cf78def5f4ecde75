# SPDX-License-Identifier: Apache-2.0
"""Work grows no faster than the program: operations are counted for programs of different sizes."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.fx import Node

from delegatec.edge.builder import Builder
from delegatec.edge.passes.eliminate_common import eliminate_common
from delegatec.edge.passes.remove_identities import remove_identities
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import Function, assert_computes, called, edge, export
from delegatec.edge.testing.synthetic import Synthetic

aten = torch.ops.aten
X = torch.arange(4.0)


@contextmanager
def _counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Iterator[list[Any]]:
    """Yields the first arguments of all calls of a function in the scope."""
    calls: list[Any] = []
    function = getattr(owner, name)

    def record(*args: Any, **kwargs: Any) -> Any:
        calls.append(args[0])
        return function(*args, **kwargs)

    with monkeypatch.context() as context:
        context.setattr(owner, name, record)
        yield calls


@contextmanager
def _operand_edits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Yields, for each edit of arguments, the number of operands that fx visits."""
    counts: list[int] = []
    replace, assign = Node.replace_all_uses_with, Node.__setattr__

    def record_replace(self: Node, *args: Any, **kwargs: Any) -> Any:
        counts.extend(len(user.all_input_nodes) for user in self.users)
        return replace(self, *args, **kwargs)

    def record_assign(self: Node, name: str, value: Any) -> None:
        if name == "args":
            counts.append(len(self.all_input_nodes))
        assign(self, name, value)

    with monkeypatch.context() as context:
        context.setattr(Node, "replace_all_uses_with", record_replace)
        context.setattr(Node, "__setattr__", record_assign)
        yield counts


def _copies(count: int) -> EdgeProgram:
    made = Synthetic()
    x = made.input()
    return made.program(
        *(made.call(aten.clone.default, made.call(aten.neg.default, x)) for _ in range(count))
    )


@pytest.mark.parametrize("apply", [remove_identities, eliminate_common])
def test_passes_edit_a_wide_node_once(
    apply: Callable[[EdgeProgram], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = _copies(500)
    with _operand_edits(monkeypatch) as edits:
        assert apply(program)
    assert sum(edits) < 4 * 500
    assert len(program.output_node().args[0]) == 500  # type: ignore[arg-type]
    assert_computes(program, [-X] * 500, X)


def test_decomposition_edits_no_wide_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: torch.Tensor) -> Any:
        parts = [x + index for index in range(200)]
        return torch.cat(parts), parts

    exported = export(function, X)
    importlib.import_module("delegatec.edge.legalize.templates").is_traced(aten.cat.default)  # fills a cache
    with _operand_edits(monkeypatch) as edits:
        program = importlib.import_module("delegatec.edge.convert").to_edge(exported, passes=())
    assert sum(edits) < 200 * 200
    assert called(program) == [*[aten.add.Scalar] * 200, aten.cat.default]
    assert_computes(program, function(X), X)


def test_a_chain_of_identities_ends_where_it_starts() -> None:
    made = Synthetic()
    x = made.input()
    y = x
    for _ in range(2000):
        y = made.call(aten.alias.default, y)
    program = made.program(made.call(aten.neg.default, y), y)
    assert remove_identities(program)
    assert called(program) == [aten.neg.default] and program.output_node().args[0][1] is x  # type: ignore[index]


def test_names_of_folded_constants_are_bounded() -> None:
    def model(self: Any, x: torch.Tensor) -> torch.Tensor:
        mask = self.mask
        for index in range(40):
            mask = torch.where(mask > index, mask, mask.mT)
        result: torch.Tensor = x + mask
        return result

    program = edge(Function(model, mask=torch.arange(16.0).view(4, 4)), X)
    (name,) = program.names_in_model().values()
    assert name.startswith("mask.") and len(name) < 400


def test_weights_of_bodies_are_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(count: int) -> int:
        weights = {f"w{index}": torch.full((4,), index + 2.0) for index in range(count)}

        def body(self: Any, y: torch.Tensor, sign: int) -> torch.Tensor:
            for name in weights:
                y = y * getattr(self, name) + sign
            return y

        def model(self: Any, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = torch.cond(
                x.sum() > 0, lambda y: body(self, y, 1), lambda y: body(self, y, -1), (x,)
            )
            return result

        with _counted(monkeypatch, EdgeProgram, "placeholders") as calls:
            made = edge(Function(model, **weights), X)
        assert len(list(made.walk())[1].constants) == count
        return len(calls)

    assert program(20) == program(5)


def test_views_are_held_against_the_next_write_only() -> None:
    class Time(int):
        compared = 0

        def __lt__(self, other: int) -> bool:
            Time.compared += 1
            return int(self) < int(other)

    functionalize: Any = importlib.import_module("delegatec.edge.functionalize")
    graph = torch.fx.Graph()
    x = graph.call_function(aten.clone.default, (graph.placeholder("x"),))
    writes = []
    for _ in range(300):
        writes.append(graph.call_function(aten.add_.Tensor, (x, 1)))
        graph.call_function(aten.neg.default, (graph.call_function(aten.view.default, (x, [4])),))
    order = {node: Time(position) for position, node in enumerate(graph.nodes)}
    assert not functionalize._is_seen_by_views(writes, functionalize.storage_roots(graph), order)
    assert Time.compared < 300 * 20


def test_parts_of_a_real_value_are_not_searched_for_complex_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    lower: Any = importlib.import_module("delegatec.edge.complex.lower")
    with _counted(monkeypatch, lower, "is_complex") as calls:
        edge(lambda x: [part + 1 for part in x.unbind(0)], torch.zeros(100, 2), passes=())
    tuples = [node for node in calls if isinstance(node.meta.get("val"), (tuple, list))]
    assert len(tuples) == 1 and len(calls) < 400


def test_sizes_are_computed_without_a_look_at_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    program = edge(lambda x, y: x[:, None] + y, X, X, dynamic_shapes=({0: torch.export.Dim("a", min=2)},) * 2)
    results: Any = program.output_node().args[0]
    rows, columns = results[0].meta["val"].shape
    builder = Builder(program)
    with _counted(monkeypatch, EdgeProgram, "placeholders") as calls:
        scalars = [builder.scalar(rows * columns + index) for index in range(20)]
    assert len(set(scalars)) == 20 and len(calls) < 10
