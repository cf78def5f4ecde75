# SPDX-License-Identifier: Apache-2.0
"""Operations that may be part of a table of the runtime keep the rank of a constant."""

from __future__ import annotations

import pytest
from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import DataType, Operation

from delegatec.backends.xnnpack.blob import read_blob
from delegatec.backends.xnnpack.building.draft import Draft
from delegatec.backends.xnnpack.building.step import Step
from delegatec.backends.xnnpack.operands import OPERATION_NAMES
from delegatec.backends.xnnpack.values import tensor_of
from delegatec.delegation.protocol.parts import chunks


def _simplified(type: int, constant: list[int], first: int, is_second: bool = False) -> Draft:
    """Returns a graph of an operation, and of a quotient of its result and a constant."""
    draft = Draft()

    def value(type: int, shape: list[int], constant: int = 0) -> int:
        scale = schema.ScaleOfTensorT(0.1, 0) if type == DataType.INT8 else None
        return draft.value(type, shape, scale, constant_id=constant)

    source = value(type, [2, 3])
    floats = value(DataType.FLOAT32, [2, 3])
    scalar = value(DataType.FLOAT32, constant, draft.constant(bytes(4)))
    result = value(DataType.FLOAT32, [1, 2, 3] if len(constant) > 2 else [2, 3])
    draft.inputs = [source]
    operands = (floats, scalar) if is_second else (scalar, floats)
    draft.steps = [
        Step(schema.NodeT(first, schema.UnaryT(source, floats, 0), 0, None), ()),
        Step(schema.NodeT(Operation.Divide, schema.BinaryT(*operands, result, 0), 0, None), ()),
    ]
    draft.outputs = [result]
    draft.simplify()
    return draft


def _names(draft: Draft) -> list[str]:
    return [OPERATION_NAMES[step.node.operationType] for step in draft.steps]


@pytest.mark.parametrize("is_second", [False, True])
def test_a_constant_of_a_higher_rank_is_read_twice(is_second: bool) -> None:
    draft = _simplified(DataType.INT8, [1, 1, 1], Operation.Convert, is_second)
    assert _names(draft) == ["Convert", "Divide", "Slice"]
    quotient, half = (step.node.operation for step in draft.steps[1:])
    blob = b"".join(chunk for part in draft.blob() for chunk in chunks(part))
    tensors = {each.id: each for each in map(tensor_of, read_blob(memoryview(blob)).graph.values)}
    pair = tensors[quotient.input2Id if is_second else quotient.input1Id]
    assert (list(pair.dims), pair.constantId > 0) == ([2, 1, 1], True)
    assert list(tensors[quotient.outputId].dims) == [2, 2, 3]
    assert (half.offsets, half.sizes) == ([0, 0, 0], [1, 0, 0])
    assert list(tensors[half.outputId].dims) == [1, 2, 3]


@pytest.mark.parametrize(
    ("type", "constant", "first"),
    [
        pytest.param(DataType.INT8, [], Operation.Convert, id="of no rank"),
        pytest.param(DataType.INT8, [1, 1], Operation.Convert, id="of the same rank"),
        pytest.param(DataType.FLOAT32, [1, 1, 1], Operation.Tanh, id="float"),
        pytest.param(DataType.INT8, [1, 1, 1], Operation.Softmax, id="no function of elements"),
    ],
)
def test_other_operations_stay(type: int, constant: list[int], first: int) -> None:
    assert _names(_simplified(type, constant, first)) == [OPERATION_NAMES[first], "Divide"]
