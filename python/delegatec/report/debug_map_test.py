# SPDX-License-Identifier: Apache-2.0
"""The debug map of small programs, entry by entry."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from delegatec.delegation import PartitionRules
from delegatec.lowering import Program, lower
from delegatec.program.emitted import DelegateCall
from delegatec.report.debug_map import debug_map_json
from delegatec.report.debug_text import format_debug_map


class Inner(torch.nn.Module):
    """[3, 8] to two of [3, 8]."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.linear(x)
        return torch.nn.functional.silu(y), y + 1


class Outer(torch.nn.Module):
    """Two MPS delegates, with an operator between them that rules reject."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = self.inner(x)
        values, _ = torch.topk(torch.cumsum(first, 1) * second, 2)
        return torch.exp(values)


def _lowered(backend: str) -> Program:
    exported = torch.export.export(Outer().eval(), (torch.rand(3, 8),))
    rules = PartitionRules(block_operators=("aten.cumsum",) if backend != "portable" else ())
    return lower({"forward": exported}, backend, rules=rules)


def _map(lowered: Program) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(debug_map_json(lowered.sources, lowered.emitted))
    assert list(document) == ["methods"] and list(document["methods"]) == ["forward"]
    forward: dict[str, Any] = document["methods"]["forward"]
    return forward


@pytest.mark.parametrize("backend", ["portable", "mps"])
def test_handles_lead_to_the_users_lines(backend: str) -> None:
    handles = _map(_lowered(backend))["handles"]
    line = Outer.forward.__code__.co_firstlineno
    assert list(handles) == sorted(handles, key=int)
    assert [
        (h["node"], h["operator"], h["module"]) for h in handles.values() if "getitem" not in h["node"]
    ] == [
        ("linear", "aten.linear.default", "inner.linear"),
        ("silu", "aten.silu.default", "inner"),
        ("add", "aten.add.Tensor", "inner"),
        ("cumsum", "aten.cumsum.default", ""),
        ("mul", "aten.mul.Tensor", ""),
        ("topk", "aten.topk.default", ""),
        ("exp", "aten.exp.default", ""),
    ]
    by_node = {entry["node"]: entry for entry in handles.values()}
    assert by_node["silu"]["operators"] == ["aten.sigmoid.default", "aten.mul.Tensor"]
    assert by_node["exp"]["source"].endswith(f"debug_map_test.py:{line + 3}")


def test_handles_are_the_same_for_every_backend() -> None:
    nodes = [
        {handle: entry["node"] for handle, entry in _map(_lowered(backend))["handles"].items()}
        for backend in ("portable", "mps")
    ]
    assert nodes[0] == nodes[1]


def test_kernels_have_the_handles_of_their_nodes_and_the_number_of_their_outputs() -> None:
    document = _map(_lowered("portable"))
    handles = document["handles"]
    seen = [
        (i["calls"], [handles[str(h)]["node"] for h in i["handles"]], i["outputs"])
        for i in document["instructions"]
    ]
    assert ("aten::topk.values", ["topk"], 2) in seen
    assert ("aten::sigmoid.out", ["silu"], 1) in seen
    assert document["delegates"] == []


def test_delegates_have_the_handles_of_all_their_nodes_and_their_own_map() -> None:
    lowered = _lowered("mps")
    document = _map(lowered)
    (method,) = lowered.emitted.methods
    assert len(document["delegates"]) >= 2
    for delegate in document["delegates"]:
        (index,) = delegate["instructions"]
        instruction, call = document["instructions"][index], method.instructions[index]
        assert isinstance(call, DelegateCall) and method.delegates[call.delegate].name == delegate["name"]
        assert instruction["calls"] == delegate["name"] and delegate["backend"] == "MPSBackend"
        mapped = {handle for handles in delegate["map"].values() for handle in handles}
        assert mapped and mapped <= set(instruction["handles"])
    first = document["instructions"][document["delegates"][0]["instructions"][0]]
    nodes = {document["handles"][str(handle)]["node"] for handle in first["handles"]}
    assert nodes == {"linear", "silu", "add"}
    assert first["outputs"] == 2


def test_text_names_nodes_and_lines_of_every_instruction() -> None:
    lowered = _lowered("mps")
    document = json.loads(debug_map_json(lowered.sources, lowered.emitted))
    lines = format_debug_map(document).splitlines()
    method = document["methods"]["forward"]
    own = sum(len(delegate["map"]) for delegate in method["delegates"])
    assert lines[0] == "lines of method forward:"
    assert len(lines) == 2 + len(method["instructions"]) + own
    line = Outer.forward.__code__.co_firstlineno
    (cumsum,) = (text for text in lines if "aten::cumsum.out" in text)
    assert cumsum.split()[1:3] == ["aten::cumsum.out", "cumsum"]
    assert cumsum.endswith(f"debug_map_test.py:{line + 2}")
    (call,) = (text for text in lines if "lowered_0 (MPSBackend)" in text)
    assert "linear, silu, add" in call


def test_text_counts_omitted_nodes() -> None:
    handles = {str(i): {"node": f"n{i}", "source": "m.py:1"} for i in range(7)}
    step = {"calls": "aten::a", "handles": list(range(7)), "outputs": 1}
    document = {"methods": {"f": {"handles": handles, "instructions": [step], "delegates": []}}}
    assert "n0, n1, n2, n3, and 3 more  m.py:1" in format_debug_map(document)


class Branch(torch.nn.Module):
    """A branch: its instructions are inlined."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        (y,) = torch.cond(x.sum() > 0, lambda x: (torch.sin(x),), lambda x: (torch.cumsum(x, 0),), (x,))
        return torch.exp(y)


@pytest.mark.parametrize("backend", ["portable", "mps"])
def test_instructions_of_bodies_have_handles(backend: str) -> None:
    exported = torch.export.export(Branch(), (torch.rand(3),))
    document = _map(lower({"forward": exported}, backend))
    handles = document["handles"]
    nodes = [[handles[str(h)]["node"] for h in step["handles"]] for step in document["instructions"]]
    for name in ("sin", "cumsum", "exp"):
        assert [name] in nodes
    assert all(nodes), "every instruction has an origin"
    calls = {step["calls"] for step in document["instructions"]}
    assert ("aten::sin.out" in calls) == (backend == "portable")


class Counter(torch.nn.Module):
    """A buffer that every run adds to."""

    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(torch.sin(x))
        return self.total * 2


def test_the_origin_of_a_write_to_a_buffer_is_the_value() -> None:
    exported = torch.export.export(Counter(), (torch.rand(3),))
    document = _map(lower({"forward": exported}, "portable"))
    (write,) = (step for step in document["instructions"] if step["calls"] == "aten::copy_")
    assert [document["handles"][str(handle)]["node"] for handle in write["handles"]] == ["add_"]
