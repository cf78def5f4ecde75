# SPDX-License-Identifier: Apache-2.0
"""Debug handles refer to nodes of the exported program, through all rewrites."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram

from delegatec.edge import EdgeProgram, to_edge

aten = torch.ops.aten


class _Block(torch.nn.Module):
    """[2, 4] to [2, 4]; `more` adds a weight that is used at the end."""

    def __init__(self, more: bool = False) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(4)
        self.more = torch.nn.Parameter(torch.ones(4)) if more else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.silu(self.norm(x), inplace=True)
        x = torch.tan(x)
        return x if self.more is None else x * self.more


class _Writes(torch.nn.Module):
    """Writes to a view: torch traces the program anew."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        y[0].add_(1.0)
        return torch.nn.functional.silu(y)


def _export(module: torch.nn.Module) -> ExportedProgram:
    return torch.export.export(module.eval(), (torch.rand(2, 4),))


def _exported_handles(exported: ExportedProgram) -> dict[str, int]:
    """Returns operator of each call -> its position among the calls, from 1."""
    calls = [node for node in exported.graph.nodes if node.op == "call_function"]
    return {str(node.target): index for index, node in enumerate(calls, start=1)}


def _by_handle(program: EdgeProgram) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for node in program.graph.nodes:
        if node.op == "call_function":
            found.setdefault(node.meta["debug_handle"], []).append(str(node.target))
    return found


def _edge(module: torch.nn.Module, preserve: Collection[OpOverload] = ()) -> dict[int, list[str]]:
    return _by_handle(to_edge(_export(module), preserve=preserve))


def test_operators_count_from_one_in_the_order_of_the_exported_program() -> None:
    exported = _export(_Block())
    handles = _exported_handles(exported)
    edge = _by_handle(to_edge(exported))
    assert handles == {"aten.layer_norm.default": 1, "aten.silu_.default": 2, "aten.tan.default": 3}
    assert sorted(edge) == [1, 2, 3]
    assert edge[1] == ["aten.native_layer_norm.default", "<built-in function getitem>"]
    assert edge[2] == ["aten.sigmoid.default", "aten.mul.Tensor"]
    assert edge[3] == ["aten.tan.default"]


def test_handles_do_not_depend_on_what_a_backend_preserves() -> None:
    preserved, parts = _edge(_Block(), [aten.silu.default]), _edge(_Block())
    assert preserved[2] == ["aten.silu.default"] != parts[2]
    assert preserved[1] == parts[1] and preserved[3] == parts[3]


def test_a_weight_more_changes_no_handle_before_it() -> None:
    more, less = _edge(_Block(more=True)), _edge(_Block())
    assert {handle: more[handle] for handle in less} == less
    assert more.keys() - less.keys() == {4}


def test_handles_survive_torchs_functionalization() -> None:
    exported = _export(_Writes())
    handles = _exported_handles(exported)
    edge = _by_handle(to_edge(exported))
    assert handles["aten.add_.Tensor"] == 3 and handles["aten.silu.default"] == 4
    assert edge[1] == ["aten.sin.default"]
    assert edge[4] == ["aten.sigmoid.default", "aten.mul.Tensor"]
    assert edge[3][0] == "aten.add.Scalar" and len(edge[3]) == 3
    assert sorted(edge) == [1, 2, 3, 4]


def test_origins_are_nodes_of_the_exported_program() -> None:
    program = to_edge(_export(_Block()))
    assert [str(origin.operator) for origin in list(program.origins.values())[:3]] == [
        "aten.layer_norm.default",
        "aten.silu_.default",
        "aten.tan.default",
    ]
    assert program.origins[3].node == "tan"
    assert {origin.operator for origin in list(program.origins.values())[3:]} == {"placeholder", "output"}


def test_every_node_has_a_handle() -> None:
    for module in (_Block(more=True), _Writes()):
        program = to_edge(_export(module))
        assert all(node.meta["debug_handle"] >= 1 for node in program.graph.nodes)
