# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from delegatec.delegation import Backend, BackendRegistry, ReferenceExecutor
from delegatec.diagnostics import DelegatecError
from delegatec.program.emitted import (
    Delegate,
    DelegateCall,
    EmittedMethod,
    EmittedProgram,
    Instruction,
    KernelCall,
    TensorValue,
    Value,
)
from delegatec.program.file.writer import write_program
from delegatec.program.planning.memory_plan import MemoryPlan
from delegatec.program.reader import parse_program
from delegatec.verify.interpreter import Interpreter

FLOAT = 6


def _planned(offset: int, **fields: Any) -> TensorValue:
    return TensorValue(FLOAT, (4,), offset=offset, **fields)


def _load(
    values: list[Value],
    operators: list[tuple[str, str]],
    instructions: Sequence[Instruction],
    inputs: list[int],
    outputs: list[int],
    *,
    backends: Any = None,
    fill: int | None = None,
    **fields: Any,
) -> Interpreter:
    method = EmittedMethod(
        name="forward",
        values=values,
        inputs=inputs,
        outputs=outputs,
        operators=operators,
        instructions=list(instructions),
        debug_handles=[],
        delegates=fields.pop("delegates", []),
        memory_plan=MemoryPlan(arena_size=64),
    )
    file = io.BytesIO()
    write_program(EmittedProgram([method], **fields), file)
    options: dict[str, Any] = {} if fill is None else {"fill": fill}
    return Interpreter(parse_program(file.getvalue()).methods[0], backends, **options)


def _bytes(tensor: torch.Tensor) -> memoryview:
    array: Any = tensor.numpy()
    return memoryview(array).cast("B")


NEG, EXP = ("aten::neg", "out"), ("aten::exp", "out")
X = torch.tensor([1.0, -2.0, 3.0, 0.5])


def test_runs_kernels_in_planned_memory() -> None:
    values: list[Value] = [_planned(0), _planned(16), _planned(32)]
    machine = _load(values, [NEG, EXP], [KernelCall(0, (0, 1, 1)), KernelCall(1, (1, 2, 2))], [0], [2])
    (output,) = machine.run([X])
    torch.testing.assert_close(output, torch.exp(-X))


def test_outputs_are_copies() -> None:
    machine = _load([_planned(0), _planned(16)], [NEG], [KernelCall(0, (0, 1, 1))], [0], [1])
    (first,) = machine.run([X])
    machine.run([X + 1])
    torch.testing.assert_close(first, -X)


def test_a_plan_that_overwrites_a_live_tensor_has_wrong_results() -> None:
    # the addition uses value 0, and value 2 has the same memory
    values: list[Value] = [_planned(0), _planned(16), _planned(0), _planned(32), 1]
    instructions = [KernelCall(0, (0, 1, 1)), KernelCall(1, (1, 2, 2)), KernelCall(2, (0, 2, 4, 3, 3))]
    machine = _load(values, [NEG, EXP, ("aten::add", "out")], instructions, [0], [3])
    (output,) = machine.run([X])
    assert not torch.allclose(output, X + torch.exp(-X))
    torch.testing.assert_close(output, 2 * torch.exp(-X))


def test_an_output_over_its_own_input_is_rejected() -> None:
    values: list[Value] = [_planned(0), _planned(8)]
    machine = _load(values, [NEG], [KernelCall(0, (0, 1, 1))], [0], [1])
    with pytest.raises(DelegatecError, match=r"DC506.*instruction 0, aten::neg\.out"):
        machine.run([X])


def test_uninitialized_memory_is_not_a_number() -> None:
    values: list[Value] = [_planned(0), _planned(16), _planned(32)]
    machine = _load(values, [NEG], [KernelCall(0, (1, 2, 2))], [0], [2])
    assert machine.run([X])[0].isnan().all()
    machine = _load(values, [NEG], [KernelCall(0, (1, 2, 2))], [0], [2], fill=0)
    assert (machine.run([X])[0] == 0).all()


def test_state_lasts_from_run_to_run() -> None:
    initial = _bytes(torch.tensor([10.0, 20.0, 30.0, 40.0]))
    state = _planned(16, constant_index=1, is_mutable=True, name="total")
    values: list[Value] = [_planned(0), state, _planned(32), 1, False]
    instructions = [KernelCall(0, (1, 0, 3, 2, 2)), KernelCall(1, (1, 2, 4, 1))]
    operators = [("aten::add", "out"), ("aten::copy_", "")]
    machine = _load(values, operators, instructions, [0], [2], mutable_data=[initial])
    machine.run([X])
    (output,) = machine.run([X])
    torch.testing.assert_close(output, torch.tensor([10.0, 20.0, 30.0, 40.0]) + 2 * X)


def test_constants_are_read_from_the_file() -> None:
    constant = TensorValue(FLOAT, (4,), constant_index=1)
    values: list[Value] = [_planned(0), constant, _planned(16)]
    content = _bytes(torch.arange(4.0))
    machine = _load(
        values, [("aten::mul", "out")], [KernelCall(0, (0, 1, 2, 2))], [0], [2], constants=[content]
    )
    torch.testing.assert_close(machine.run([X])[0], X * torch.arange(4.0))


def test_bounded_shapes_change_from_run_to_run() -> None:
    values: list[Value] = [_planned(0, is_dynamic=True), _planned(16, is_dynamic=True)]
    machine = _load(values, [NEG], [KernelCall(0, (0, 1, 1))], [0], [1])
    for length in (4, 1, 3):
        torch.testing.assert_close(machine.run([X[:length]])[0], -X[:length])
    with pytest.raises(DelegatecError, match=r"DC504.*at most"):
        machine.run([torch.ones(5)])


def test_bounded_shapes_grow_in_memory_of_the_callers() -> None:
    values: list[Value] = [_planned(0, is_dynamic=True), TensorValue(FLOAT, (4,), is_dynamic=True), None]
    machine = _load(values, [("aten::clone", "out")], [KernelCall(0, (0, 2, 1, 1))], [0], [1])
    for length in (1, 4, 3):
        assert torch.equal(machine.run([X[:length]])[0], X[:length])


@pytest.mark.parametrize("bad", [[], [X, X], [X[:3]], [X.double()], [1.0]])
def test_inputs_that_do_not_fit(bad: list[Any]) -> None:
    machine = _load([_planned(0), _planned(16)], [NEG], [KernelCall(0, (0, 1, 1))], [0], [1])
    with pytest.raises(DelegatecError, match="DC504"):
        machine.run(bad)


def test_a_kernel_that_rejects_its_arguments_is_named() -> None:
    values: list[Value] = [_planned(0), _planned(16)]
    machine = _load(values, [("aten::mm", "out")], [KernelCall(0, (0, 0, 1, 1))], [0], [1])
    with pytest.raises(DelegatecError, match=r"DC505.*aten::mm\.out"):
        machine.run([X])


def test_all_kernels_that_are_missing_are_named() -> None:
    operators = [("aten::no_such", "out"), NEG, ("other::kernel", "")]
    with pytest.raises(DelegatecError) as caught:
        _load([_planned(0)], operators, [], [0], [0])
    assert [d.code for d in caught.value.diagnostics] == ["DC501", "DC501"]


class _Product(ReferenceExecutor):
    """Multiplies by a factor."""

    def __init__(self, factor: int) -> None:
        self._factor = factor

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [inputs[0] * self._factor, inputs[0] + inputs[1]]


class _Doubling(Backend):
    """A backend whose blob is the factor."""

    id = "Doubling"
    partitioner = preprocess = None  # type: ignore[assignment]

    def by_id(self, backend_id: str) -> Any:
        assert backend_id == self.id
        return self

    def reference(self, blob: memoryview, compile_specs: Sequence[Any]) -> ReferenceExecutor:
        (spec,) = compile_specs
        assert (spec.key, spec.value) == ("k", b"v")
        return _Product(blob[0])


def _delegating(backends: Any) -> Interpreter:
    constant = TensorValue(FLOAT, (4,), constant_index=1)
    values: list[Value] = [_planned(0), constant, _planned(16), _planned(32)]
    return _load(
        values,
        [],
        [DelegateCall(0, (0, 1, 2, 3))],
        [0],
        [2, 3],
        backends=backends,
        constants=[_bytes(torch.ones(4))],
        delegates=[Delegate("Doubling", (b"\x05",), (("k", b"v"),), "lowered_0", {})],
    )


def test_delegates_run_by_their_reference() -> None:
    scaled, added = _delegating(_Doubling()).run([X])
    torch.testing.assert_close(scaled, 5 * X)
    torch.testing.assert_close(added, X + 1)


@pytest.mark.parametrize("backends", [None, BackendRegistry()])
def test_a_delegate_without_its_backend(backends: Any) -> None:
    with pytest.raises(DelegatecError, match="Doubling"):
        _delegating(backends)


def test_an_input_where_the_caller_has_it_may_be_channels_last() -> None:
    order = (0, 2, 3, 1)
    image = torch.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=torch.channels_last)
    given = TensorValue(FLOAT, (1, 2, 3, 4), dim_order=order)
    program = _load([given, False], [("aten::copy_", "")], [KernelCall(0, (0, 0, 1, 0))], [0], [0])
    value = program.slots(0)[0]
    assert torch.equal(program.run([image])[0], image)
    assert value.read().data_ptr() == image.data_ptr() and value.read().stride() == image.stride()
    assert torch.equal(program.run([image.contiguous()])[0], image)
