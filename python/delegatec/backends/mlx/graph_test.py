# SPDX-License-Identifier: Apache-2.0
"""The graph of a blob, and its text."""

from __future__ import annotations

import torch
from delegatec_schemas import mlx_graph as schema

from delegatec.backends.common.testing import Call, floats
from delegatec.backends.mlx.backend import MLX
from delegatec.backends.mlx.graph import blob_graph
from delegatec.backends.mlx.operands import FAMILIES, NODE_NAMES, new_node
from delegatec.backends.mlx.testing import compile_module
from delegatec.delegation import BlobLabels, Family, format_blob_graph


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.linear(x)
        return (y.relu() * 0.5).expand(3, *y.shape) + y.sum()


def test_every_value_and_operation_has_a_line() -> None:
    rows = torch.export.Dim("rows", min=2, max=9)
    compiled = compile_module(Net(), (floats(5, 4),), dynamic_shapes=({0: rows},))
    (delegate,) = compiled.delegates
    graph = MLX.graph(memoryview(delegate.blob_bytes()))
    text = format_blob_graph(graph, BlobLabels(delegate.constant_names, {}, {}))
    assert set(delegate.constant_names.values()) == {"linear.weight", "linear.bias"}
    lines = [line.strip() for line in text.splitlines()]
    assert "note: sizes vary: these are the largest" in lines
    assert any("f32[9, 4]" in line and line.endswith("input") for line in lines)
    (product,) = (node for node in graph.nodes if node.operation == "Addmm")
    assert str(graph.values[product.results[0]]) == "f32[9, 2]"
    assert [name for name, _ in product.operands] == ["", "", "bias"]
    (body,) = graph.bodies.values()
    assert [node.operation for node in body.nodes] == ["Transpose"]
    assert product.operands[1][1] in body.nodes[0].results
    assert all(str(value) for value in graph.values.values())


def test_slots_that_are_used_again_are_other_values() -> None:
    compiled = compile_module(Call(lambda x: ((x * 2).exp() + 1).sin().cos()), (floats(3),))
    graph = MLX.graph(memoryview(compiled.blobs()[0]))
    results = [id for node in graph.nodes for id in node.results]
    assert len(set(results)) == len(results) == 5
    assert graph.totals == {"temporaries": 1}


def test_every_node_has_a_family_that_exists() -> None:
    names = set(NODE_NAMES.values())
    listed = [name for members in FAMILIES.values() for name in members]
    assert set(listed) <= names and len(listed) == len(set(listed))
    assert Family.ARITHMETIC not in FAMILIES


def test_every_node_has_a_table() -> None:
    for kind, name in NODE_NAMES.items():
        found, table = new_node(name)
        assert found == kind and type(table).__name__.endswith("T")


def test_a_node_without_semantics_has_no_type() -> None:
    """As those of other compilers, which `inspect` prints."""
    kernel = schema.MetalKernelT(
        name=b"scale",
        source=b"",
        inputs=[schema.TensorT(0)],
        outputs=[schema.TensorT(1)],
        grid=[],
        threadgroup=[],
    )
    chain = schema.ChainT([schema.InstructionT(schema.Node.MetalKernel, kernel)])
    graph = schema.GraphT(
        version=b"1",
        numInputs=1,
        numOutputs=1,
        chains=[chain],
        inputs=[schema.SlotT(0)],
        outputs=[schema.SlotT(1)],
        buffers=[],
        names=[],
        tensors=[schema.TensorMetaT(sizes=[schema.SizeT(3)], dtype=6)],
    )
    text = format_blob_graph(blob_graph(graph))
    assert "MetalKernel(" in text and "runtimes refuse MetalKernel" in text


def _of_one_node(name: str, sizes: list[int], **fields: object) -> schema.GraphT:
    """Returns a graph of a node that reads two inputs of these sizes."""
    kind, table = new_node(name)
    for field, content in fields.items():
        setattr(table, field, content)
    return schema.GraphT(
        version=b"1",
        numInputs=2,
        numOutputs=1,
        chains=[schema.ChainT([schema.InstructionT(kind, table)])],
        inputs=[schema.SlotT(0), schema.SlotT(1)],
        outputs=[schema.SlotT(2)],
        buffers=[],
        names=[],
        tensors=[
            schema.TensorMetaT(sizes=[schema.SizeT(size) for size in sizes], dtype=dtype) for dtype in (6, 4)
        ],
    )


def test_types_need_no_memory() -> None:
    """Of slices and copies of as many elements as a tensor may have."""
    most, slot = 2**31 - 1, schema.TensorT
    first, last, end = (schema.IntT(literal=literal) for literal in (0, -1, most))
    sliced = {"axis": first, "start": first, "stop": last, "out": slot(2)}
    graphs = [
        _of_one_node("Slice", [most], x=slot(0), step=1, **sliced),
        _of_one_node("SliceUpdate", [most], dst=slot(0), update=slot(0), step=1, **{**sliced, "stop": end}),
        _of_one_node("IndexCopy", [most], dst=slot(0), update=slot(0), indices=slot(1), out=slot(2)),
    ]
    results = [graph.values[id] for graph in map(blob_graph, graphs) for id in graph.nodes[0].results]
    assert [value.shape for value in results] == [(most - 1,), (most,), (most,)]
    too_large = blob_graph(_of_one_node("Slice", [most] * 16, x=slot(0), step=1, **sliced))
    assert [str(too_large.values[id]) for id in too_large.nodes[0].results] == ["?[]"]
