# SPDX-License-Identifier: Apache-2.0
"""In-place operators become functional ones, without copies if only their users can tell."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch.export.graph_signature import OutputKind

from delegatec.diagnostics import DelegatecError
from delegatec.edge.convert import to_edge
from delegatec.edge.functionalize import functional_overload, functionalize, mutations
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import Function, assert_computes, called, edge, export

aten = torch.ops.aten
X = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
Y = torch.randn(2, 3, generator=torch.Generator().manual_seed(1))


def _chain(x: torch.Tensor, y: torch.Tensor) -> Any:
    a = x + y
    a.mul_(2).add_(y)
    a.relu_()
    return a, a.sub_(1)


def _read_between(x: torch.Tensor, y: torch.Tensor) -> Any:
    a = torch.sin(x)
    before = a * 1
    a.add_(y)
    return before, a


def _view_sees_the_write(x: torch.Tensor, y: torch.Tensor) -> Any:
    a = x + 1
    row = a[0]
    a.mul_(y)
    return row, a


def _write_through_a_view(x: torch.Tensor, y: torch.Tensor) -> Any:
    a = x * 2
    a[0].add_(1)
    a[:, 1:] = y[:, 1:]
    a.view(-1)[::2].zero_()
    return a


def _write_through_what_may_be_a_view(x: torch.Tensor, y: torch.Tensor) -> Any:
    a = x * 2
    a.reshape(3, 2).add_(1)
    a.contiguous().mul_(2)
    return a


def test_a_write_whose_functional_form_rejects_symbolic_sizes() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a = x * 2
        return a.addcmul_(y, torch.ones(()), value=-0.5)

    rows = torch.export.Dim("rows", min=2, max=16)
    program = edge(function, X, Y, dynamic_shapes=({0: rows}, {0: rows}))
    assert_computes(program, function(X, Y), X, Y)


def test_a_size_that_torch_specializes_is_rejected() -> None:
    """Torch retraces the program, compares two sizes, and keeps the answer of the example."""

    def function(x: torch.Tensor) -> torch.Tensor:
        distances = torch.nn.functional.pdist(x)
        return distances.floor_divide_(distances)

    with pytest.raises(DelegatecError) as caught:
        edge(function, torch.eye(3), dynamic_shapes=({0: torch.export.Dim.AUTO(min=2, max=9)},))
    (problem,) = caught.value.diagnostics
    assert problem.code == "DC205" and "dimension 0" in problem.message


@pytest.mark.parametrize(
    "view",
    [
        *(torch.atleast_1d, torch.atleast_2d, torch.atleast_3d, torch.conj_physical),
        *(lambda x: torch.nn.functional.dropout(x, training=False), lambda x: torch.dropout(x, 0.0, True)),
        *(lambda x: torch.nn.functional.dropout2d(x, training=False), lambda x: x.sum_to_size(2, 3)),
        *(
            lambda x: torch.nn.functional.alpha_dropout(x, training=False),
            lambda x: torch.einsum("ij->ji", x),
        ),
        *(lambda x: torch.broadcast_tensors(x, x[0])[0], lambda x: torch.atleast_3d([x, x * 2])[0]),
        *(lambda x: torch.meshgrid(x[0], indexing="ij")[0], lambda x: torch.cartesian_prod(x[0])),
        *(lambda x: x.type_as(torch.ones(1)), lambda x: x.mT.ravel(), lambda x: x.ravel()),
    ],
)
def test_writes_to_results_that_may_be_views_change_the_viewed_tensor(view: Callable[..., Any]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        a = x + 1
        view(a)[:1].mul_(3)
        return a

    def through_a_copy(x: torch.Tensor) -> torch.Tensor:
        a = x + 1
        view(a).neg_()
        return a

    def as_result(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a = x + 1
        b = view(a)
        a.mT.mul_(3)
        return a, b

    assert_computes(edge(function, X), function(X), X)
    assert_computes(edge(as_result, X), as_result(X), X)
    if view.__name__ == "<lambda>":
        return  # an expanded result rejects the write
    assert_computes(edge(through_a_copy, X), through_a_copy(X), X)


def _write_to_one_of_several_results(x: torch.Tensor, y: torch.Tensor) -> Any:
    values, indices = torch.max(x * y, 1)
    values.add_(1)
    first, second = torch.split(x + y, 1)
    first.mul_(2)
    return values, indices, first, second


def _write_does_not_promote(x: torch.Tensor, y: torch.Tensor) -> Any:
    a = torch.tanh(x.half())
    a.add_(y)
    b = torch.ones(2, 3, dtype=torch.int32).mul_(torch.tensor(3))
    return a, b


def _with_itself(x: torch.Tensor, y: torch.Tensor) -> Any:
    a = x + y
    a.add_(a)
    return a, a * a


LOCAL = [_chain, _read_between, _with_itself]
OTHERS = [
    _view_sees_the_write,
    _write_through_a_view,
    _write_through_what_may_be_a_view,
    _write_to_one_of_several_results,
    _write_does_not_promote,
]


@pytest.mark.parametrize("function", [*LOCAL, *OTHERS])
def test_computes_the_same(function: Callable[..., Any]) -> None:
    program = edge(function, X, Y)
    assert not any(operator._schema.is_mutable for operator in called(program))
    expected = function(X.clone(), Y.clone())
    assert_computes(program, expected, X, Y, atol=1e-3)
    for node, tensor in zip(
        _user_outputs(program), expected if isinstance(expected, tuple) else (expected,), strict=True
    ):
        assert node.meta["val"].dtype is tensor.dtype


def _user_outputs(program: EdgeProgram) -> list[Any]:
    results: Any = program.output_node().args[0]
    specs = program.output_specs
    return [r for r, spec in zip(results, specs, strict=True) if spec.kind is OutputKind.USER_OUTPUT]


def _adopted(function: Callable[..., Any], *inputs: torch.Tensor) -> EdgeProgram:
    """Returns the exported program with its in-place operators."""
    exported = export(function, *inputs)
    signature, spec = exported.graph_signature, exported.call_spec
    assert spec.in_spec is not None and spec.out_spec is not None
    inputs_, outputs = list(signature.input_specs), list(signature.output_specs)
    return EdgeProgram(
        "forward", exported.graph_module, inputs_, outputs, {}, {}, spec.in_spec, spec.out_spec
    )


@pytest.mark.parametrize("function", LOCAL)
def test_local_writes_need_no_new_trace(function: Callable[..., Any]) -> None:
    program = _adopted(function, X, Y)
    count, before = len(mutations(program)), len(program.graph.nodes)
    assert count > 0 and functionalize(program)
    assert mutations(program) == [] and len(program.graph.nodes) == before


@pytest.mark.parametrize("function", OTHERS)
def test_others_do_not_change_the_program(function: Callable[..., Any]) -> None:
    program = _adopted(function, X, Y)
    before = str(program.graph)
    assert not functionalize(program)
    assert str(program.graph) == before


def test_nothing_to_do() -> None:
    program = _adopted(lambda x: aten.dropout_.default(x + 1, 0.5, False), X)
    assert mutations(program) == [] and functionalize(program)


def test_buffers_that_are_written_to_are_outputs() -> None:
    def model(self: Any, x: torch.Tensor) -> Any:
        self.total.add_(x)
        self.rows[0] = x[1]
        return self.total * 2

    module = Function(model, total=torch.ones(2, 3), rows=torch.zeros(2, 3))
    expected_module = deepcopy(module)
    program = edge(module, X)
    result = expected_module(X)
    assert [spec.kind for spec in program.output_specs] == [OutputKind.BUFFER_MUTATION] * 2 + [
        OutputKind.USER_OUTPUT
    ]
    assert_computes(program, (expected_module.total, expected_module.rows, result), X)
    assert torch.equal(module.get_buffer("total"), torch.ones(2, 3)), "lowering writes to no buffer"


def _entire_buffer(self: Any, x: torch.Tensor) -> Any:
    first = self.total[0] * 1  # a view that is read before the write
    self.total.copy_(x)
    self.total.to(x.dtype).add_(1)
    return first, self.total, self.total[1] + self.count.add_(2)


def _view_of_a_buffer(self: Any, x: torch.Tensor) -> Any:
    row = self.total[0]
    self.total.mul_(x)
    return row * 1, self.count.add_(1).float()


def _copied_to_a_buffer(self: Any, x: torch.Tensor) -> Any:
    self.total.split(1)[-1].mul_(2)
    self.count.copy_(x[1, 0] * 3)
    self.total.copy_(x[0, 1].half())
    return self.total / 1.5, self.count * 2


@pytest.mark.parametrize(
    ("model", "local"),
    [(_entire_buffer, True), (_view_of_a_buffer, False), (_copied_to_a_buffer, False)],
)
def test_writes_to_entire_buffers(model: Callable[..., Any], local: bool) -> None:
    module = Function(model, total=Y.clone(), count=torch.tensor(5))
    assert functionalize(_adopted(module, X)) is local
    program = edge(module, X)
    eager = deepcopy(module)
    results = eager(X)
    state = {"total": eager.total, "count": eager.count}
    left = [spec.target for spec in program.output_specs if spec.kind is OutputKind.BUFFER_MUTATION]
    assert sorted(str(target) for target in left) == ["count", "total"]
    assert_computes(program, (*(state[str(target)] for target in left), *results), X)


def test_two_buffers_of_one_value() -> None:
    """Next to a write to an input, torch's functionalization loses the order of results."""

    def model(self: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        x.floor_divide_(x)
        self.total.copy_(self.total.roll(1, 0))
        self.rows.copy_(self.total)
        self.more.copy_(self.rows)
        return y

    buffers = {"total": Y.clone(), "rows": torch.zeros(2, 3), "more": torch.ones(2, 3)}
    module, inputs = Function(model, **buffers), (X.clone(), Y.clone())
    program = edge(module, *(each.clone() for each in inputs))
    eager = deepcopy(module)
    written = X.clone()
    eager(written, Y.clone())
    state = [eager.get_buffer(name) for name in buffers]
    assert_computes(program, (*state, written, Y), *inputs)


def test_inputs_that_are_written_to_are_outputs() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    program = edge(function, X.clone())
    assert [spec.kind for spec in program.output_specs] == [
        OutputKind.USER_INPUT_MUTATION,
        OutputKind.USER_OUTPUT,
    ]
    assert_computes(program, (X + 1, (X + 1) * 2), X)


@pytest.mark.parametrize(
    ("target", "functional"),
    [
        (aten.relu_.default, aten.relu.default),
        (aten.add_.Tensor, aten.add.Tensor),
        (aten.copy_.default, aten.copy.default),
        (aten.index_put_.default, aten.index_put.default),
        (aten.add.out, None),
        (aten.relu.default, None),
        (aten._assert_async.msg, None),
    ],
)
def test_functional_overload(target: Any, functional: Any) -> None:
    assert functional_overload(target) is functional


def test_run_decompositions_is_the_last_resort(monkeypatch: pytest.MonkeyPatch) -> None:
    exported = export(_chain, X, Y)
    monkeypatch.setattr(type(exported), "run_decompositions", None)
    assert_computes(to_edge(exported), _chain(X, Y), X, Y)
