# SPDX-License-Identifier: Apache-2.0
"""Debug maps: entries, results, and every misuse. `tests/peer` compares them with the peer's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.fx import Graph, Node

from delegatec.delegation import DelegateMappingBuilder, PartitionView
from delegatec.delegation.protocol.mapping import DebugHandleMap, check_mapping, debug_map_of
from delegatec.diagnostics import DelegatecError
from delegatec.edge import to_edge

Misuse = Callable[[], object]


def _node(handle: int | None) -> Node:
    node = Graph().placeholder("x")
    if handle is not None:
        node.meta["debug_handle"] = handle
    return node


def _code(misuse: Misuse) -> str:
    with pytest.raises(DelegatecError) as caught:
        misuse()
    (diagnostic,) = caught.value.diagnostics
    return diagnostic.code


def test_generated_identifiers_count_from_zero() -> None:
    builder = DelegateMappingBuilder(generated_identifiers=True)
    assert [builder.insert_delegate_mapping_entry(handles=handle) for handle in (7, 7, 3)] == [0, 1, 2]
    assert builder.get_delegate_mapping() == {0: (7,), 1: (7,), 2: (3,)}


@pytest.mark.parametrize("identifiers", [[4, 0, -1], ["b", "a", ""]])
def test_identifiers_of_the_backend(identifiers: list[int | str]) -> None:
    builder = DelegateMappingBuilder()
    for identifier in identifiers:
        assert builder.insert_delegate_mapping_entry(handles=1, identifier=identifier) == identifier
    assert list(builder.get_delegate_mapping()) == identifiers


def test_handles_are_sorted_once_each_and_none_is_skipped() -> None:
    builder = DelegateMappingBuilder(True)
    builder.insert_delegate_mapping_entry(handles=[9, None, 2, 9])
    builder.insert_delegate_mapping_entry(nodes=[_node(5), _node(None), _node(1), _node(5)])
    builder.insert_delegate_mapping_entry(nodes=_node(8))
    assert builder.get_delegate_mapping() == {0: (2, 9), 1: (1, 5), 2: (8,)}


def test_a_map_of_origins_has_no_entries_without_handles() -> None:
    origins = [[_node(7), _node(3), _node(7)], [], [_node(None)], [_node(None), _node(2)]]
    assert debug_map_of(origins) == {0: (3, 7), 3: (2,)}


def test_the_map_is_a_copy() -> None:
    builder = DelegateMappingBuilder(True)
    builder.get_delegate_mapping()[0] = (1,)
    assert builder.get_delegate_mapping() == {}


def test_every_misuse_is_dc420_and_changes_nothing() -> None:
    builder, generated = DelegateMappingBuilder(), DelegateMappingBuilder(True)
    insert, generate = builder.insert_delegate_mapping_entry, generated.insert_delegate_mapping_entry
    insert(handles=1, identifier="a")
    generate(handles=1)
    misuses: list[Misuse] = [
        lambda: insert(handles=1),
        lambda: insert(handles=1, identifier="a"),
        lambda: insert(handles=1, identifier=2),
        lambda: insert(handles=1, identifier=1.5),  # type: ignore[arg-type]
        lambda: insert(identifier="b"),
        lambda: insert(nodes=_node(1), handles=1, identifier="b"),
        lambda: insert(handles=[], identifier="b"),
        lambda: insert(handles=[None, None], identifier="b"),
        lambda: insert(nodes=[], identifier="b"),
        lambda: insert(nodes=_node(None), identifier="b"),
        lambda: insert(handles=0, identifier="b"),
        lambda: insert(handles=[1, True], identifier="b"),
        lambda: insert(handles=["1"], identifier="b"),  # type: ignore[list-item]
        lambda: generate(handles=1, identifier=0),
        lambda: generate(handles=1, identifier="a"),
        lambda: generate(handles=[None]),
    ]
    assert [_code(misuse) for misuse in misuses] == ["DC420"] * len(misuses)
    assert builder.get_delegate_mapping() == {"a": (1,)}
    assert generate(handles=2) == 1


def test_a_misuse_names_the_line_of_the_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    with pytest.raises(DelegatecError) as caught:
        DelegateMappingBuilder().insert_delegate_mapping_entry(handles=3)
    location = caught.value.diagnostics[0].location
    assert location is not None and location.file == Path(__file__).name
    assert "insert_delegate_mapping_entry(handles=3)" in location.text


class _Halves(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x) * 0.5


@pytest.fixture
def view() -> PartitionView:
    program = to_edge(torch.export.export(_Halves(), (torch.rand(2),)))
    return PartitionView(program, [n for n in program.graph.nodes if n.op == "call_function"])


def test_a_map_of_the_partition_is_valid(view: PartitionView) -> None:
    handles = [node.meta["debug_handle"] for node in view.nodes]
    check_mapping({0: tuple(handles), 1: tuple(handles[:1])}, view, "B")
    check_mapping({"a": (view.inputs[0].meta["debug_handle"],)}, view, "B")
    check_mapping({}, view, "B")


@pytest.mark.parametrize(
    ("mapping", "problem"),
    [
        ({0: (99,)}, "[99], not handles of nodes"),
        ({0: ()}, "not sorted and unique"),
        ({0: (3, 2)}, "not sorted and unique"),
        ({0: (2, 2)}, "not sorted and unique"),
        ({0: (2,), "0": (2,)}, "both int and str"),
    ],
)
def test_a_map_that_does_not_fit_is_dc421(view: PartitionView, mapping: DebugHandleMap, problem: str) -> None:
    with pytest.raises(DelegatecError) as caught:
        check_mapping(mapping, view, "B")
    assert [d.code for d in caught.value.diagnostics] == ["DC421"]
    assert problem in str(caught.value)
