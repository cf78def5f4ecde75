# SPDX-License-Identifier: Apache-2.0
"""The graph of a blob, for texts and drawings."""

from __future__ import annotations

import pytest
import torch
from delegatec_schemas.tosa_graph import DType

from delegatec.backends.arm.blob import Graph
from delegatec.backends.arm.building.operation import Value
from delegatec.backends.arm.graph import blob_graph
from delegatec.backends.arm.testing import compile_module, graph_of
from delegatec.backends.common.testing import Call, X
from delegatec.delegation import format_blob_graph


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_operators_values_and_attributes(dtype: torch.dtype) -> None:
    module = Call(lambda x: torch.tanh(x.clamp(0, 0.5)).permute(2, 0, 1))
    graph = blob_graph(graph_of(compile_module(module, (X.to(dtype),))))
    assert [node.operation for node in graph.nodes] == ["CLAMP", "TANH", "TRANSPOSE"]
    clamp, _, transpose = graph.nodes
    assert clamp.attributes == {"min_val": "0.0", "max_val": "0.5", "nan_mode": "propagate"}
    assert transpose.attributes == {"perms": "[2, 0, 1]"}
    text = format_blob_graph(graph)
    assert "CLAMP" in text and "max_val" in text


def test_enumerations_have_names() -> None:
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.UpsamplingNearest2d(scale_factor=2))
    text = format_blob_graph(blob_graph(graph_of(compile_module(module, (torch.zeros(1, 3, 5, 5),)))))
    assert "acc_type=fp32" in text and "mode=nearest" in text


def test_a_constant_may_be_an_output() -> None:
    """Files of other writers have such ones."""
    constant = Value("constant", DType.FP32, (2,), b"\0" * 8, is_constant=True)
    text = format_blob_graph(blob_graph(Graph((), (constant,), (), ())))
    assert text.endswith("return %0\n")
