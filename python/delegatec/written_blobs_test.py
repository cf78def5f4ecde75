# SPDX-License-Identifier: Apache-2.0
"""The reader of a backend accepts the blobs that it writes: a refused blob is an error of `lower`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from delegatec_schemas import mlx_graph, mps_graph, tosa_graph, xnnpack_graph
from torch import Tensor, nn

from delegatec.backends.common.graph_format import GraphFormat
from delegatec.diagnostics import DelegatecError
from delegatec.lowering import lower

SIGMOIDS: dict[str, Callable[[Any], bool]] = {
    "mlx": lambda graph: any(
        each.nodeType == mlx_graph.Node.Sigmoid for chain in graph.chains for each in chain.instructions
    ),
    "mps": lambda graph: any(node.mpsnodeUnionType == mps_graph.Operation.Sigmoid for node in graph.mpsNodes),
    "tosa": lambda graph: any(
        each.op == tosa_graph.Op.SIGMOID for each in graph.regions[0].blocks[0].operators
    ),
    "vulkan": lambda graph: any("sigmoid" in str(call.name) for call in graph.chain),
    "xnnpack": lambda graph: any(
        node.operationType == xnnpack_graph.Operation.Sigmoid for node in graph.nodes
    ),
}
"""Backend -> whether a graph of its format computes a sigmoid."""


class Network(nn.Module):
    """Two operators before the one that no reader accepts in these tests, and one after it."""

    def forward(self, x: Tensor) -> Tensor:
        return ((x.relu() + 1.5).sigmoid()).abs()


@pytest.mark.parametrize("backend", SIGMOIDS)
def test_a_blob_that_the_reader_refuses_names_the_operator(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = GraphFormat.check_graph

    def refuses_sigmoids(self: GraphFormat[Any], graph: Any, segment: int = 0) -> None:
        check(self, graph, segment)
        self.check(["it computes a sigmoid"] if SIGMOIDS[backend](graph) else [])

    monkeypatch.setattr(GraphFormat, "check_graph", refuses_sigmoids)
    exported = torch.export.export(Network(), (torch.rand(2, 3),))
    options = {"specification": "TOSA-1.0+FP"} if backend == "tosa" else {}
    with pytest.raises(DelegatecError) as error:
        lower({"forward": exported}, backend, options)
    (problem,) = error.value.diagnostics
    assert problem.code == "DC419"
    assert problem.message == (
        f"the {backend} backend compiles aten.sigmoid.default to a blob that its own reader refuses: it "
        "computes a sigmoid"
    )
    assert problem.node == "sigmoid"
    assert "block_operators" in problem.help
