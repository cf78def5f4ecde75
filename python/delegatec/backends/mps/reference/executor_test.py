# SPDX-License-Identifier: Apache-2.0
"""The executor itself: inputs, outputs, constants, values and their declarations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from delegatec_schemas.mps_graph import (
    BinaryT,
    CastT,
    DataType,
    GraphT,
    GraphType,
    InlineDataT,
    ScaledBinaryT,
    UnaryT,
    ViewT,
)

from delegatec.backends.mps.blob import read_blob
from delegatec.backends.mps.reference.constants import constant_tensor
from delegatec.backends.mps.testing.reference.synthetic import executor, make_blob
from delegatec.diagnostics import DelegatecError

X = torch.tensor([1.0, -2.0, 3.0])
NEG = [("Neg", UnaryT(0, 10))]


def rejected(blob: bytes, *inputs: torch.Tensor) -> str:
    with pytest.raises(DelegatecError) as error:
        executor(blob)(inputs)
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.code == "DC408"
    return diagnostic.message.removeprefix("the MPS runtime cannot run this blob: ")


def edited(**fields: Any) -> bytes:
    """Returns the blob of a graph that negates its input, with modified fields."""

    def edit(graph: GraphT) -> None:
        for name, content in fields.items():
            setattr(graph, name, content)

    return make_blob(NEG, [X], {10: X}, edit=edit)


def test_a_graph_for_a_kernel_is_rejected() -> None:
    message = rejected(edited(graphType=GraphType.METAL_KERNEL), X)
    assert message == "kernels for single operators are not implemented"


@pytest.mark.parametrize("ids", [[1, 0], [0, 2], [1], [0, 0]])
def test_inputs_are_identified_by_position(ids: list[int]) -> None:
    blob = edited(inputIds=ids)
    assert rejected(blob, *[X] * len(ids)) == f"its inputs have the ids {ids}, but are identified by position"


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "0 inputs instead of 1"),
        ([X, X], "2 inputs instead of 1"),
        ([X.double()], "input 0 is declared as float32[3], and is float64[3]"),
        ([X[:2]], "input 0 is declared as float32[3], and is float32[2]"),
    ],
)
def test_inputs_that_do_not_fit(inputs: list[torch.Tensor], message: str) -> None:
    assert rejected(edited(), *inputs) == message


def test_an_input_in_another_shape_is_the_same_buffer() -> None:
    assert executor(edited())([X[:, None]])[0].tolist() == [-1.0, 2.0, -3.0]


def test_an_output_is_a_buffer_of_the_declared_dtype() -> None:
    message = rejected(make_blob(NEG, [X], {10: X.int()}), X)
    assert message == "output 10 is declared as int32[3], and is float32[3]"
    assert (
        rejected(make_blob(NEG, [X], {10: X[:2]}), X)
        == "output 10 is declared as float32[2], and is float32[3]"
    )


@pytest.mark.parametrize("id", [-1, 11])
def test_undefined_values_are_not_read(id: int) -> None:
    blob = make_blob([("Add", ScaledBinaryT(0, id, 10, 1.0))], [X], {10: X})
    assert rejected(blob, X) == f"value {id} is used before its definition"


def test_an_operation_after_its_reader_comes_too_late() -> None:
    blob = make_blob([("Exp", UnaryT(11, 10)), ("Neg", UnaryT(0, 11))], [X], {10: X})
    assert rejected(blob, X) == "value 11 is used before its definition"


def test_a_result_needs_an_id() -> None:
    blob = make_blob([("Neg", UnaryT(0, -1))], [X], {0: X})
    assert rejected(blob, X) == "a result has the id -1, but there are 15 values"


def test_an_id_with_two_definitions_has_the_last_value() -> None:
    nodes = [("Neg", UnaryT(0, 11)), ("Add", ScaledBinaryT(0, 11, 11, 3.0)), ("Abs", UnaryT(11, 10))]
    assert executor(make_blob(nodes, [X], {10: X}))([X])[0].tolist() == [2.0, 4.0, 6.0]


def test_an_output_may_be_an_input_a_constant_and_another_output() -> None:
    def edit(graph: GraphT) -> None:
        graph.outputIds = [0, 5, 10, 10]

    blob = make_blob(NEG, [X], {10: X}, {5: X.int()}, edit=edit)
    results = executor(blob)([X])
    assert [result.tolist() for result in results] == [[1, -2, 3], [1, -2, 3], [-1, 2, -3], [-1, 2, -3]]


def test_a_scalar_is_of_shape_1_and_declared_as_none() -> None:
    scalar = torch.tensor(2.0)
    nodes = [("Mul", BinaryT(0, 5, 11)), ("View", ViewT(11, 10, 0, []))]
    run = executor(make_blob(nodes, [scalar], {10: scalar}, {5: scalar}))
    (result,) = run([scalar])
    assert (result.shape, result.item()) == ((), 4.0)
    assert run.mismatches() == []


def test_constants_are_views_of_the_blob() -> None:
    blob = make_blob([("Add", ScaledBinaryT(0, 5, 10, 1.0))], [X], {10: X}, {5: X})
    start = np.frombuffer(blob, np.uint8).ctypes.data
    constant = constant_tensor(read_blob(memoryview(blob)), 5)
    assert start <= constant.data_ptr() < start + len(blob)
    assert constant.equal(X)


def test_constants_need_not_be_aligned() -> None:
    constants = {5: torch.ones(3, dtype=torch.int8), 6: X}
    blob = make_blob([("Mul", BinaryT(0, 6, 10))], [X], {10: X}, constants)
    assert executor(blob)([X])[0].tolist() == [1.0, 4.0, 9.0]
    assert constant_tensor(read_blob(memoryview(blob)), 6).data_ptr() % 4 == 0


def test_the_runtime_does_not_support_inline_constants() -> None:
    def edit(graph: GraphT) -> None:
        graph.mpsValues[5].constantBuffer = InlineDataT(np.frombuffer(X.numpy().tobytes(), np.uint8))

    blob = make_blob([("Mul", BinaryT(0, 5, 10))], [X], {10: X}, {5: X}, edit=edit)
    assert rejected(blob, X) == "constant 5 is stored in the FlatBuffer instead of the constant segment"


def test_declarations_of_intermediate_values_are_compared_and_not_read() -> None:
    nodes = [("Cast", CastT(0, 11, DataType.FLOAT16)), ("Cast", CastT(11, 10, DataType.FLOAT32))]
    run = executor(make_blob(nodes, [X], {10: X}))
    assert run([X])[0].equal(X)
    assert run.mismatches() == ["value 11 is declared as float32[1] and is float16[3]"]


def test_inputs_are_not_written_to() -> None:
    x = X.clone()
    nodes = [("View", ViewT(0, 11, 2, [3, 1])), ("Neg", UnaryT(11, 10))]
    (result,) = executor(make_blob(nodes, [x], {10: x[:, None]}))([x])
    result.zero_()
    assert x.equal(X)
