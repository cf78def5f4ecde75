# SPDX-License-Identifier: Apache-2.0
"""Control flow in reports: bodies are in the graph, the drawing, the debug map and the text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops import while_loop
from torch.export import export

from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.report import build_manifest, render_html, to_json
from delegatec.report.debug_map import debug_map_json
from delegatec.report.graph import operator_graph
from delegatec.report.inspection import inspect_program
from delegatec.report.text import format_program


class Model(torch.nn.Module):
    """A branch in a loop."""

    def forward(self, x: Tensor) -> Any:
        def body(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return i + 1, torch.cond(y.sum() > 0, lambda y: y.sin() - 1, lambda y: y.cos(), (y,))

        return while_loop(lambda i, y: i < 3, body, (torch.tensor(0), x.exp()))[1] * 2


@pytest.mark.parametrize("backend", ["portable", "mps"])
def test_bodies_are_part_of_the_report(tmp_path: Path, backend: str) -> None:
    lowered = lower({"forward": export(Model(), (torch.randn(3, 4),))}, backend)
    with open(tmp_path / "program.pte", "wb") as file:
        write_program(lowered.emitted, file)
    manifest = build_manifest(
        lowered,
        tmp_path / "program.pte",
        compiler="delegatec test",
        label="//models:loop",
    )
    (method,) = manifest.methods
    calls = [node.operator for node in method.graph if node.delegate is None]
    assert [call for call in calls if not call.startswith("aten.")] == ["cond", "while_loop"]
    assert len(calls) == (11 if backend == "portable" else 2)
    assert method.nodes_delegated == (0 if backend == "portable" else method.nodes - 2)
    text = format_program(inspect_program(tmp_path / "program.pte"))
    assert f"{method.instructions} instruction(s)" in text
    assert "loop" in render_html(manifest) and json.loads(to_json(manifest))
    debug = json.loads(debug_map_json(lowered.sources, lowered.emitted))["methods"]["forward"]
    assert len(debug["instructions"]) == method.instructions
    assert all(instruction["handles"] for instruction in debug["instructions"])


def test_edges_pass_through_bodies() -> None:
    lowered = lower({"forward": export(Model(), (torch.randn(3, 4),))})
    graph = operator_graph(lowered.programs["forward"], {})
    edges = {node.name: [graph[index].name for index in node.inputs] for node in graph}
    body = "while_loop_body_graph_0"
    assert edges == {
        "exp": [],
        "while_loop_cond_graph_0.lt": [],
        f"{body}.sum_dim_int_list": ["exp"],
        f"{body}.gt": [f"{body}.sum_dim_int_list"],
        f"{body}.true_graph_0.sin": ["exp"],
        f"{body}.true_graph_0.sub_scalar": [f"{body}.true_graph_0.sin"],
        f"{body}.false_graph_0.cos": ["exp"],
        f"{body}.cond": [
            *(f"{body}.gt", "exp"),
            *(f"{body}.true_graph_0.sub_scalar", f"{body}.false_graph_0.cos"),
        ],
        f"{body}.add_scalar": [],
        "while_loop": ["exp", "while_loop_cond_graph_0.lt", f"{body}.add_scalar", f"{body}.cond"],
        "mul_scalar": ["while_loop"],
    }
    assert [node.name for node in graph if node.is_output] == ["mul_scalar"]
