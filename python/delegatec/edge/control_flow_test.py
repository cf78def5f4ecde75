# SPDX-License-Identifier: Apache-2.0
"""Bodies of control flow become programs: of normal form, with their own constants, handles and lines."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops import map as map_rows
from torch._higher_order_ops import scan, while_loop
from torch.fx import GraphModule

from delegatec.edge.control_flow import adopt_bodies, bodies_of, calls
from delegatec.edge.convert import to_edge
from delegatec.edge.printer import print_program
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import Function, assert_computes, edge, export
from delegatec.edge.verifier import verify

X = torch.arange(12.0).view(3, 4) - 5


def _text(program: EdgeProgram) -> str:
    return "\n".join(line.partition("  #")[0] for line in print_program(program).splitlines())


def _branch(x: Tensor, true: Callable[..., Any], false: Callable[..., Any], *operands: Tensor) -> Any:
    return torch.cond(x.sum() > 0, true, false, (x, *operands))


def test_branches_have_their_own_constants() -> None:
    torch.manual_seed(0)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)

        def forward(self, x: Tensor) -> Any:
            return _branch(x, lambda x: self.one(x), lambda x: self.two(x))

    model = Model()
    program = edge(model, X, preserve=[torch.ops.aten.linear.default])
    assert (
        _text(program)
        == """\
forward(%x: f32[3, 4]):
  %1: f32[] = aten.sum.dim_IntList(%x, [])
  %2: bool[] = aten.gt.Scalar(%1, 0)
  %5: (f32[3, 4]) = cond(%2, true_graph_0, false_graph_0, [%x])
    true_graph_0(%x: f32[3, 4]):
      @one.weight: f32[4, 4]
      @one.bias: f32[4]
      %3: f32[3, 4] = aten.linear.default(%x, @one.weight, @one.bias)
      return [%3]
    false_graph_0(%x: f32[3, 4]):
      @two.weight: f32[4, 4]
      %2: f32[3, 4] = aten.linear.default(%x, @two.weight)
      return [%2]
  %6: f32[3, 4] = getitem(%5, 0)
  return [%6]"""
    )
    assert program.constants == {}
    for body, name in zip(bodies_of(program, *calls(program)), ("one", "two"), strict=True):
        assert body.input_specs[0].target == f"{name}.weight"
        weight = next(value for value in body.constants.values() if value.dim() == 2)
        assert weight.data_ptr() == model.get_parameter(f"{name}.weight").data_ptr(), "no copy"
    for x in (X, -X):
        assert_computes(program, model(x), x)


def _loop(x: Tensor, body: Callable[..., Any] = lambda i, y: (i + 1, y * 2)) -> Any:
    return while_loop(lambda i, y: i < 3, body, (torch.tensor(0), x))


def _nested(x: Tensor) -> Any:
    return _loop(x, lambda i, y: (i + 1, _branch(y, lambda y: y - 9, lambda y: y.relu() + i)))


def test_a_loop_that_carries_one_tensor_twice_beside_a_write_to_an_input() -> None:
    """torch's functionalization rejects carried values that share memory."""

    def function(x: Tensor, y: Tensor) -> Any:
        y.add_(1)
        carried = (torch.tensor(0), x, x, x.view(4, 3))
        body = lambda i, a, b, c: (i + 1, b + 1, a * 0.5, c * 2)  # noqa: E731
        return while_loop(lambda i, a, b, c: i < 3, body, carried)[1:]

    program = edge(function, X, X.clone())
    assert_computes(program, (X + 1, (X + 1) * 0.5 + 1, (X * 0.5 + 1) * 0.5, X.view(4, 3) * 8), X, X)


def test_a_loop_of_a_file_beside_a_write() -> None:
    """Files have lists of operands, where torch.export has tuples."""

    def function(x: Tensor, y: Tensor) -> Any:
        x.add_(1)
        return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * y.sin()), (torch.tensor(0), x))[1]

    file = io.BytesIO()
    torch.export.save(export(Function(function), X.clone(), X.clone()), file)
    file.seek(0)
    program = to_edge(torch.export.load(file))
    assert_computes(program, (X + 1, (X + 1) * X.sin() ** 3), X, X)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(_loop, id="while"),
        pytest.param(_nested, id="cond in while"),
        pytest.param(lambda x: map_rows(lambda row, y: (row + y, row.sum()), x, x[0] * 2), id="map"),
        pytest.param(lambda x: scan(lambda c, row: (c + row, c * row), x[0] * 2, x, reverse=True), id="scan"),
        pytest.param(
            lambda x: scan(lambda c, y: (c + y, map_rows(lambda v: v * c.sum(), y)), x[0] * 2, x),
            id="map in scan",
        ),
        pytest.param(
            lambda x: _branch(x, lambda x: _loop(x)[1], lambda x: x.clone()), id="while in cond, operand"
        ),
        pytest.param(lambda x: _branch(x, lambda x: torch.ones(3), lambda x: x.sum(1)), id="constant"),
        pytest.param(lambda x: _branch(x, lambda x: (x + 1).relu_().mul_(2), lambda x: x * 2), id="in place"),
    ],
)
def test_results_are_those_of_eager_mode(function: Callable[..., Any]) -> None:
    def model(x: Tensor) -> Any:
        return function(x + 0)

    program = edge(model, X)
    for each in program.walk():
        verify(each)
    for x in (X, -X, X + 20):
        assert_computes(program, model(x), x)


def test_handles_are_unique_and_nodes_have_lines() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return _nested(x)

    program = edge(Model(), X)
    bodies = list(program.walk())
    assert [body.method for body in bodies[1:]] == [
        "forward.while_loop_cond_graph_0",
        "forward.while_loop_body_graph_0",
        "forward.while_loop_body_graph_0.true_graph_0",
        "forward.while_loop_body_graph_0.false_graph_0",
    ]
    handles = [{node.meta["debug_handle"] for node in body.graph.nodes} for body in bodies]
    assert sum(map(len, handles)) == len(set.union(*handles))
    operators = [n for body in bodies for n in body.graph.nodes if n.op == "call_function"]
    assert {node.meta["source"].file.rpartition("/")[2] for node in operators} == {"control_flow_test.py"}


def test_two_calls_of_one_graph_have_separate_graphs() -> None:
    def model(self: Any, x: Tensor) -> Any:
        a = _branch(x, lambda x, w: x * w, lambda x, w: _loop(x)[1] - w, self.one)
        return _branch(a, lambda x, w: x * w, lambda x, w: _loop(x)[1] - w, self.two)

    module = Function(model, one=torch.ones(4), two=torch.full((4,), 2.0))
    exported = export(module, X)
    first, second = exported.graph.find_nodes(op="call_function", target=torch.ops.higher_order.cond)
    second.update_arg(1, first.args[1])
    second.update_arg(2, first.args[2])
    exported.graph.eliminate_dead_code()
    program = to_edge(exported)
    graphs = [body.graph_module for body in program.walk()]
    assert len(graphs) == 9 and len({id(graph) for graph in graphs}) == 9
    for x in (X, -X):
        assert_computes(program, module(x), x)


def test_names_of_torch_export_are_reserved() -> None:
    class Model(nn.Module):
        def forward(self, add: Tensor, mul: Tensor) -> Any:
            return torch.addcmul(add, mul, mul)

    program = edge(Model(), X, X)
    adopt_bodies(program)
    verify(program)
    assert isinstance(program.graph_module, GraphModule)
    assert_computes(program, X + X * X, X, X)


def test_text_is_a_function_of_the_program() -> None:
    assert print_program(edge(_nested, X)) == print_program(edge(_nested, X))
