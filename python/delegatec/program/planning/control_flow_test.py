# SPDX-License-Identifier: Apache-2.0
"""Linearized control flow: jumps, copies, and lifetimes of memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops import map as map_rows
from torch._higher_order_ops import scan, while_loop
from torch.export import Dim

from delegatec.diagnostics import DelegatecError
from delegatec.edge.convert import KERNEL_COMPOSITES
from delegatec.edge.testing import Function, edge
from delegatec.program.emitted import (
    DelegateCall,
    EmittedMethod,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    TensorValue,
)
from delegatec.program.emitter import emit

X = torch.ones(64, 4)
SIZE = 1024


def _emit(function: Callable[..., Any], *inputs: Any, dynamic_shapes: Any = None) -> EmittedMethod:
    program = edge(function, *inputs, dynamic_shapes=dynamic_shapes, preserve=KERNEL_COMPOSITES)
    (method,) = emit({"forward": program}).methods
    assert method.memory_plan.arena_size == method.memory_plan.lower_bound
    return method


def _text(method: EmittedMethod) -> list[str]:
    """One word per instruction: the kernel, or where a jump leads."""
    lines = []
    calls = [call for call in method.instructions if isinstance(call, KernelCall)]
    computed = {call.args[-1] for call in calls}
    for instruction in method.instructions:
        match instruction:
            case KernelCall():
                lines.append(method.operators[instruction.operator][0].partition("::")[2])
            case MoveCall():
                lines.append("move")
            case JumpFalseCall():
                always = instruction.condition not in computed
                lines.append(f"{'jump' if always else 'unless'} {instruction.destination}")
            case DelegateCall():
                lines.append("delegate")
    return lines


def _tensor(method: EmittedMethod, instruction: int, argument: int) -> TensorValue:
    call = method.instructions[instruction]
    assert isinstance(call, KernelCall)
    value = method.values[call.args[argument]]
    assert isinstance(value, TensorValue)
    return value


def _branch(x: Tensor, true: Callable[..., Any], false: Callable[..., Any], *operands: Tensor) -> Any:
    return torch.cond(x.sum() > 0, true, false, (x, *operands))


def _loop(x: Tensor, body: Callable[[Tensor], Tensor]) -> Tensor:
    result: Tensor = while_loop(
        lambda i, x: i < 3, lambda i, x: (i + 1, body(x)), (torch.tensor(0, dtype=torch.int32), x)
    )[1]
    return result


def test_branches_write_straight_into_the_result() -> None:
    method = _emit(lambda x: _branch(x, lambda x: x.sin().cos(), lambda x: x * 2), X)
    assert _text(method) == ["sum", "gt", "unless 6", "sin", "cos", "jump 7", "mul"]
    result = method.values[method.outputs[0]]
    assert isinstance(result, TensorValue)
    assert _tensor(method, 4, -1).offset == _tensor(method, 6, -1).offset == result.offset


def test_temporaries_of_both_branches_share_memory() -> None:
    def chain(x: Tensor) -> Tensor:
        return (x.sin() @ x.cos().transpose(0, 1)).softmax(1) @ x.tanh()

    method = _emit(lambda x: _branch(x, chain, lambda x: chain(x * 3)), X)
    alone = _emit(lambda x: chain(x * 3), X)
    assert method.memory_plan.arena_size <= alone.memory_plan.arena_size + SIZE


@pytest.mark.parametrize(
    ("true", "copies"),  # two of a loop's copies are its first state, one is the iteration index
    [
        pytest.param(lambda x: x.clone(), 1, id="operand"),
        pytest.param(lambda x: torch.arange(256.0).view(64, 4), 1, id="constant"),
        pytest.param(lambda x: x.view(4, 64).sin().view(64, 4), 0, id="view of all"),
        pytest.param(lambda x: torch.cat([x, x]).sin()[:64], 1, id="view of a part"),
        pytest.param(lambda x: _branch(x, lambda x: x.sin(), lambda x: x.cos()), 0, id="inner result"),
        pytest.param(lambda x: _loop(x, lambda x: x.sin().cos()), 3, id="loop"),
    ],
)
def test_only_values_in_other_memory_are_copied(true: Callable[..., Any], copies: int) -> None:
    method = _emit(lambda x: _branch(x, true, lambda x: x * 2), X)
    assert _text(method).count("clone") == copies


def test_a_tensor_that_is_returned_twice_is_copied_once() -> None:
    def twice(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        return y, y.clone()

    method = _emit(lambda x: _branch(x, twice, lambda x: (x.sin(), x.cos())), X)
    assert _text(method) == ["sum", "gt", "unless 6", "mul", "clone", "jump 8", "sin", "cos"]


def test_a_state_that_is_free_is_written_in_place() -> None:
    method = _emit(lambda x: _loop(x, lambda x: x.sin().cos()), X)
    assert _text(method) == [
        *("clone", "clone", "lt", "unless 9", "add", "sin", "cos", "clone", "jump 2"),
    ]
    # the iteration index is read where the next one is written, the tensor before that
    assert (
        _tensor(method, 7, -1).sizes == () and _tensor(method, 6, -1).offset == _tensor(method, 5, 0).offset
    )
    late = _emit(lambda x: _loop(x, lambda x: x.sin().cos() + x), X)
    assert _text(late).count("clone") == 4


def test_states_that_swap_are_kept_meanwhile() -> None:
    method = _emit(
        lambda x: while_loop(
            lambda i, a, b: i < 3,
            lambda i, a, b: (i + 1, b.clone(), a.clone()),
            (torch.tensor(0), x, x * 2),
        ),
        X,
    )
    end = _text(method).index("add") + 1
    assert _text(method)[end:] == ["clone"] * 5 + [f"jump {_text(method).index('lt')}"]


def test_values_used_in_a_loop_are_alive_to_its_end() -> None:
    def function(x: Tensor) -> Tensor:
        y = x.exp()
        return _loop(x, lambda x: (x.sin() @ y.transpose(0, 1)).softmax(1) @ x.cos())

    method = _emit(function, X)
    storages = {storage.name: storage for storage in method.memory_plan.storages}
    back = len(_text(method)) - 1
    assert _text(method)[back].startswith("jump") and storages["exp"].last == back
    assert storages["sin"].last < back


def test_rows_are_read_and_stored_one_by_one() -> None:
    method = _emit(lambda xs: map_rows(lambda x: (x.sin(), x.sum()), xs), X)
    assert _text(method) == [
        *("move", "select_copy", "sin", "sum", "et_copy_index", "et_copy_index", "add", "eq", "unless 1"),
    ]
    stacked = [method.values[index] for index in method.outputs]
    assert all(isinstance(value, TensorValue) and value.is_dynamic for value in stacked)
    dynamic = _emit(lambda xs: map_rows(lambda x: x.sin(), xs), X, dynamic_shapes=({0: Dim("n", max=99)},))
    assert _text(dynamic)[0] == "sym_size"


def test_a_scan_has_a_state_and_rows() -> None:
    method = _emit(lambda c, xs: scan(lambda c, x: (c.sin() + x, c * 2), c, xs), torch.ones(4), X)
    assert _text(method) == [
        *("clone", "move", "select_copy", "sin", "add", "mul", "et_copy_index", "clone"),
        *("add", "eq", "unless 2"),
    ]


def test_constants_of_bodies_are_stored_once() -> None:
    def model(self: Any, x: Tensor) -> Any:
        return _branch(x, lambda x: x * self.weight, lambda x: x + self.weight * 2) - self.weight

    program = edge(Function(model, weight=torch.arange(4.0)), X, passes=())
    emitted = emit({"forward": program})
    assert emitted.constant_names == [("weight",)]


def test_handles_of_jumps_are_those_of_the_call() -> None:
    method = _emit(lambda x: _loop(x, lambda x: _branch(x, lambda x: x.sin(), lambda x: x.cos())), X)
    assert len(method.debug_handles) == len(method.instructions) and all(method.debug_handles)


def test_other_control_flow_is_rejected_by_name() -> None:
    program = edge(lambda x: _branch(x, lambda x: x.sin(), lambda x: x.cos()), X)
    (call,) = (node for node in program.graph.nodes if node.target is torch.ops.higher_order.cond)
    call.target = torch.ops.higher_order.strict_mode
    with pytest.raises(DelegatecError) as caught:
        emit({"forward": program})
    (problem,) = caught.value.diagnostics
    assert problem.code == "DC206" and "strict_mode" in problem.message and problem.location is not None


def test_operators_in_bodies_are_checked() -> None:
    program = edge(lambda x: _branch(x, lambda x: x.sin(), lambda x: x.cos()), X)
    for body in program.bodies.values():
        for node in body.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default):
            node.target = torch.ops.aten.digamma.default
    with pytest.raises(DelegatecError) as caught:
        emit({"forward": program})
    assert [problem.code for problem in caught.value.diagnostics] == ["DC201"]
