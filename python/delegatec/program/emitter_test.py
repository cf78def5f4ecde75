# SPDX-License-Identifier: Apache-2.0
"""Emitted programs: values, instructions, constants, state."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

from delegatec.diagnostics import DelegatecError
from delegatec.edge import KERNEL_COMPOSITES
from delegatec.edge.testing import Function, edge
from delegatec.program import EmittedProgram, emit
from delegatec.program.emitted import EmittedMethod, KernelCall, ListValue, TensorValue, Value
from delegatec.program.external import ExternalWeights

X = torch.ones(2, 3)


def _emit(model: Callable[..., Any], *inputs: torch.Tensor, **options: Any) -> EmittedProgram:
    return emit({"forward": edge(model, *inputs, **options)})


def _method(model: Callable[..., Any], *inputs: torch.Tensor, **options: Any) -> EmittedMethod:
    return _emit(model, *inputs, **options).methods[0]


def _operators(method: EmittedMethod) -> list[str]:
    return [
        ".".join(filter(None, method.operators[call.operator]))
        for call in method.instructions
        if isinstance(call, KernelCall)
    ]


def _arguments(method: EmittedMethod, index: int = 0) -> list[Value]:
    call = method.instructions[index]
    assert isinstance(call, KernelCall)
    return [method.values[argument] for argument in call.args]


def test_a_call_has_every_argument_of_the_schema_and_the_results() -> None:
    method = _method(lambda x: torch.add(x, x * 2, alpha=3), X)
    assert _operators(method) == ["aten::mul.Scalar_out", "aten::add.out"]
    own, other, alpha, out, returned = _arguments(method, 1)
    assert isinstance(own, TensorValue) and isinstance(other, TensorValue)
    assert alpha == 3 and out is returned
    assert method.inputs == [method.values.index(own)] and method.outputs == [method.values.index(out)]


def test_defaults_are_filled_in() -> None:
    _, dim, keepdim, dtype, out, returned = _arguments(_method(lambda x: x.sum((0, 1)), X))
    assert isinstance(dim, ListValue) and dim.kind == "IntList"
    assert keepdim is False and dtype is None and out is returned


def test_several_results_are_a_list_at_the_end() -> None:
    method = _method(lambda x: torch.topk(x, 2), X)
    *_, values, indices, returned = _arguments(method)
    assert isinstance(returned, ListValue) and returned.kind == "TensorList"
    assert [method.values[int(item)] for item in returned.items] == [values, indices]
    assert isinstance(indices, TensorValue) and indices.scalar_type == 4


def test_tensors_are_row_major_and_in_the_arena() -> None:
    method = _method(lambda x: (x.T + 1).half(), X)
    tensors = [value for value in method.values if isinstance(value, TensorValue)]
    assert [(t.scalar_type, t.sizes) for t in tensors] == [(6, (2, 3)), (6, (3, 2)), (6, (3, 2)), (5, (3, 2))]
    for tensor in tensors:
        assert tensor.offset is not None and tensor.offset % 16 == 0
        assert tensor.offset < method.memory_plan.arena_size and not tensor.constant_index


def test_constants_are_stored_once_and_named() -> None:
    def model(self: Any, x: torch.Tensor) -> Any:
        return (x @ self.weight + self.bias) @ self.weight

    weight = torch.arange(9.0).view(3, 3)
    program = _emit(Function(model, weight=weight, bias=torch.ones(3)), X)
    assert sorted(program.constant_names) == [("bias",), ("weight",)]
    by_name = dict(zip(program.constant_names, program.constants, strict=True))
    assert bytes(by_name["weight",]) == weight.numpy().tobytes()
    constants = [v for v in program.methods[0].values if isinstance(v, TensorValue) and v.constant_index]
    assert [constant.offset for constant in constants] == [None, None]


def test_methods_share_constants() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 3)
    twice = torch.nn.Sequential(layer, layer)
    programs = {
        name: edge(module, X, preserve=KERNEL_COMPOSITES) for name, module in (("one", layer), ("two", twice))
    }
    program = emit(programs)
    assert [method.name for method in program.methods] == ["one", "two"]
    assert sorted(program.constant_names) == [("1.bias", "bias"), ("1.weight", "weight")]


def test_state_is_planned_starts_from_the_file_and_is_written_last() -> None:
    def model(self: Any, x: torch.Tensor) -> Any:
        self.total.add_(x)
        return self.total * 2

    program = _emit(Function(model, total=X * 5), X)
    (method,) = program.methods
    assert _operators(method)[-1] == "aten::copy_"
    buffer, value, non_blocking, returned = _arguments(method, -1)
    assert isinstance(buffer, TensorValue) and buffer is returned and non_blocking is False
    assert buffer.is_mutable and buffer.constant_index == 1 and buffer.name == "total"
    assert buffer.offset is not None and isinstance(value, TensorValue) and value.offset != buffer.offset
    assert [bytes(data) for data in program.mutable_data] == [(X * 5).numpy().tobytes()]
    assert program.constants == []
    assert len(method.debug_handles) == len(method.instructions)


def test_empty_state_has_no_initial_value() -> None:
    def model(self: Any) -> Any:
        self.total.add_(1)
        return self.total + 1

    program = _emit(Function(model, total=torch.empty(0)))
    assert program.mutable_data == []
    assert _arguments(program.methods[0], -1)[0].constant_index == 0


def test_dynamic_sizes_are_bounds_and_computed_by_primitives() -> None:
    method = _method(lambda x: x.view(-1) * 2, X, dynamic_shapes=({0: Dim("rows", min=2, max=9)},))
    assert _operators(method) == [
        *("aten::sym_size.int", "executorch_prim::mul.Scalar", "aten::view_copy.out", "aten::mul.Scalar_out"),
    ]
    tensors = [value for value in method.values if isinstance(value, TensorValue)]
    assert {tensor.sizes for tensor in tensors} == {(9, 3), (27,)}
    assert all(tensor.is_dynamic for tensor in tensors)


def test_scalars_and_none_among_inputs_and_outputs() -> None:
    method = _method(lambda x, n, _: (x * n, None, 2.5, "text", True), X, 3, None)  # type: ignore[arg-type]
    assert [method.values[index] for index in method.inputs[1:]] == [3, None]
    assert [method.values[index] for index in method.outputs[1:]] == [None, 2.5, "text", True]


def test_trees_are_stored_as_text() -> None:
    method = _method(lambda d: {"y": [d["a"], d["b"]]}, {"a": X, "b": X})  # type: ignore[arg-type]
    assert isinstance(json.loads(method.in_spec), list) and "dict" in method.out_spec


def test_an_argument_without_a_form_is_an_error_at_its_line() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.neg(x)

    program = edge(Model(), torch.ones(1, 2, 3, 3))
    node = program.graph.find_nodes(op="call_function", target=torch.ops.aten.neg.default)[0]
    node.target = torch.ops.aten.clone.default
    node.kwargs = {"memory_format": torch.channels_last}
    with pytest.raises(DelegatecError) as caught:
        emit({"forward": program})
    (problem,) = caught.value.diagnostics
    assert problem.code == "DC302" and "channels_last" in problem.message and problem.location is not None


def test_emission_is_deterministic() -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    x = torch.ones(1, 4, 8)
    first, second = _emit(layer, x), _emit(layer, x)
    assert first.methods == second.methods
    assert [bytes(a) for a in first.constants] == [bytes(b) for b in second.constants]


def test_external_weights_are_named_and_not_stored() -> None:
    layer = torch.nn.Linear(3, 3).eval()

    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = self.second = layer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.second(self.first(x)) + self.first.weight.view(1, 9)[:, :3]
            return result

    model = Tied().eval()
    weights = dict(model.named_parameters(remove_duplicate=False))
    emitted = emit({"forward": edge(model, X, preserve=KERNEL_COMPOSITES)}, external=ExternalWeights(weights))
    values = [value for value in emitted.methods[0].values if isinstance(value, TensorValue)]
    external = [value for value in values if value.is_external]
    assert sorted(value.name for value in external) == ["first.bias", "first.weight"]
    assert all(not value.constant_index and value.offset is None for value in external)
    assert {name: bytes(data) for name, data in emitted.external.items()} == {
        "first.weight": layer.weight.detach().numpy().tobytes(),
        "first.bias": layer.bias.detach().numpy().tobytes(),
    }
    # constants derived from a weight belong to the program
    assert [names[0].partition("weight.")[2] for names in emitted.constant_names] == ["view.slice"]
