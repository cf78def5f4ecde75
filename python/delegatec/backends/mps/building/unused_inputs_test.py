# SPDX-License-Identifier: Apache-2.0
"""Every input, operation and constant contributes to a result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.backends import builtin_backends
from delegatec.backends.common.testing import Call, Compiled, eager
from delegatec.backends.mps.backend import MPS
from delegatec.backends.mps.blob import Blob, read_blob
from delegatec.backends.mps.graph import blob_graph
from delegatec.backends.mps.testing import compile_module, compile_program, operations
from delegatec.delegation import PartitionRules, RuledPartitioner, to_backend
from delegatec.edge import to_edge
from delegatec.edge.builder import Builder

aten = torch.ops.aten

X = torch.rand(2, 3, generator=torch.Generator().manual_seed(0)) - 0.5
Y = torch.rand(2, 3, generator=torch.Generator().manual_seed(1)) - 0.5
N = torch.tensor([[1, 2, 3], [4, 5, 6]])


def needed(blob: Blob) -> set[int]:
    """Returns the ids of the outputs and of the values from which MPSGraph computes them."""
    graph = blob_graph(blob)
    read = set(graph.outputs)
    for node in reversed(graph.nodes):
        # The runtime makes a constant of the shape of its operand.
        if read & set(node.results) and node.operation != "FullLike":
            read |= {id for _, id in node.operands}
    return read


def check_all_read(compiled: Compiled) -> None:
    assert compiled.delegates
    for data in compiled.blobs():
        blob = read_blob(memoryview(data))
        read = needed(blob)
        assert set(blob.graph.inputIds) <= read, operations(blob)
        assert set(blob.graph.constantIds) <= read, operations(blob)
        for node in blob_graph(blob).nodes:
            assert read & set(node.results), node


CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "power of zero": (lambda x, y: x.pow(0) * y.sin(), (X, Y)),
    "power of zero alone": (lambda x: x.pow(0), (X,)),
    "power of zero of integers": (lambda n, y: n.pow(0) + y.sin(), (N, Y)),
    "integers are finite": (lambda n, y: n.isnan() | n.isinf() | (y > 0), (N, Y)),
    "all is replaced": (lambda x, y: torch.slice_scatter(x, y.sin(), 1, 0, 3), (X, Y)),
    "all is replaced, of bools": (lambda x, y: torch.slice_scatter(x > 9, y > 0, 0, 0, 2), (X, Y)),
    "a scatter without dimensions": (
        lambda x, i, y: x.scatter(0, i, y.sin()),
        (torch.tensor(0.5), torch.tensor(0), torch.tensor(0.25)),
    ),
    "a scatter of an input": (lambda x, n, y: x.scatter(1, n - n, y.sin()), (X, N, Y)),
    "a mask of all": (lambda x, y: torch.where(torch.ones(2, 3, dtype=torch.bool), y.sin(), x), (X, Y)),
    "index_put at a mask": (
        lambda x, y: x.index_put((torch.ones(2, 3, dtype=torch.bool),), y.sin().sum()),
        (X, Y),
    ),
    "beta is zero": (lambda x, y, w: torch.addmm(x, y, w, beta=0), (torch.rand(2, 2), X, torch.rand(3, 2))),
    "bounds that are equal": (lambda x, y: x.clamp(0.5, 0.5) + y.sin(), (X, Y)),
    "one class": (lambda x, y: x[:, :1].softmax(1) + y.sin(), (X, Y)),
    "one candidate": (lambda x, y: x[:, :1].argmax(1), (X, Y)),
    "shifted out": (lambda n, y: (n << 63) + y.round().to(torch.int64), (N, Y)),
    "remainder by one": (lambda n, y: n % 1 + y.sin(), (N, Y)),
    "ones like": (lambda x, y: torch.ones_like(x) + torch.zeros_like(y) + y.sin(), (X, Y)),
    "only the size": (lambda x, y: torch.arange(x.shape[0]) + y.sin()[:, 0], (X, Y)),
    "a part is replaced": (lambda x, y: torch.slice_scatter(x, y.sin()[:, :2], 1, 1, 3), (X, Y)),
    "parts that nothing reads": (lambda x, y: y.split(1, 1)[1] * x.max(1, keepdim=True)[0].sin(), (X, Y)),
    "half of it": (lambda x, y: torch.var_mean(x, 1)[0] * y.sin()[:, 0], (X, Y)),
    "a result that is replaced": (lambda x: torch.slice_scatter(x, Y.clone(), 0, 0, 2), (X,)),
    "a constant that is replaced": (lambda x: torch.slice_scatter(Y.clone(), x.sin(), 0, 0, 2), (X,)),
}


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("name", CASES)
def test_every_input_is_read(name: str, precision: str) -> None:
    function, args = CASES[name]
    module = Call(function)
    compiled = compile_module(module, args, precision)
    check_all_read(compiled)
    tolerance = {"fp32": 1e-6, "fp16": 2e-3}[precision]
    for result, wanted in zip(compiled(*args), eager(module, args), strict=True):
        torch.testing.assert_close(result, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("special", [float("nan"), float("inf"), -float("inf"), -0.0, -65504.0])
def test_artificial_uses_change_nothing(special: float, precision: str) -> None:
    function = CASES["power of zero"][0]
    compiled = compile_module(Call(function), (X, Y), precision)
    assert operations(compiled.blobs()[0]).count("Where") == 1
    ((result,), wanted) = compiled(torch.full((2, 3), special), Y), Y.sin()
    torch.testing.assert_close(result, wanted, rtol=2e-3, atol=0)


def test_the_shape_of_an_input_is_not_a_use() -> None:
    program = to_edge(torch.export.export(Call(lambda x, y: x + y.sin()), (X, Y)))
    (addition,) = (node for node in program.graph.nodes if node.target is aten.add.Tensor)
    x, _ = addition.args
    b = Builder(program).at(addition)
    addition.replace_input_with(x, b.call(aten.full_like.default, b.call(aten.view.default, x, [2, 3]), 7.0))
    compiled = compile_program(program)
    blob = read_blob(memoryview(compiled.blobs()[0]))
    assert set(blob.graph.inputIds) <= needed(blob)
    assert {"Full", "Where"} <= set(operations(compiled.blobs()[0]))
    torch.testing.assert_close(compiled(X, Y)[0], 7.0 + Y.sin())


def test_an_index_whose_expansion_stays_outside() -> None:
    """The lowering looks through the expansion, which nevertheless is an input."""
    module = Call(lambda x, i: (x.sin().gather(1, i.expand(2, 3)), i + 1))
    args = (X, torch.tensor([[1], [0]]))
    program = to_edge(torch.export.export(module, args))
    partitioner = RuledPartitioner(MPS.partitioner([]), PartitionRules(block_operators=("aten.expand",)))
    compiled = Compiled(*to_backend(program, partitioner, registry=builtin_backends()))
    check_all_read(compiled)
    assert "aten.expand.default" in {str(node.target) for node in program.graph.nodes}
    for result, wanted in zip(compiled(*args), eager(module, args), strict=True):
        torch.testing.assert_close(result, wanted)


def test_dead_code_is_dropped_with_its_constants() -> None:
    """A norm uses its statistics in float32: 7e4 overflows float16."""

    def norm(x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) * 7e4 + 0.1)

    compiled = compile_module(Call(norm), (X,), "fp16")
    check_all_read(compiled)
    blob = read_blob(memoryview(compiled.blobs()[0]))
    handles = compiled.delegates[0].debug_handle_map
    assert set(handles) <= set(range(len(blob.graph.mpsNodes)))
    names = {node.identifier: node.operation for node in blob_graph(blob).nodes}
    (root,) = (id for id, name in names.items() if name == "Rsqrt")
    source = {
        n.meta["debug_handle"]
        for n in to_edge(torch.export.export(Call(norm), (X,))).graph.nodes
        if n.target is aten.rsqrt.default
    }
    assert set(handles[root]) == source
