# SPDX-License-Identifier: Apache-2.0
"""Blobs that the stock runtime refuses, crashes on, or does not check: our reader refuses all of them.

docs/xnnpack.md has the tables.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import DataType, Operation

from delegatec.backends.xnnpack.blob import read_blob
from delegatec.backends.xnnpack.checking.values import OUTPUT
from delegatec.backends.xnnpack.operands import NO_VALUE
from delegatec.backends.xnnpack.reference.executor import XnnpackReferenceExecutor
from delegatec.backends.xnnpack.reference.testing import Blob, network
from delegatec.backends.xnnpack.testing.reference.cases import Case, In, Out
from delegatec.backends.xnnpack.testing.reference.table import CASES
from delegatec.backends.xnnpack.values import quantization_of, tensor_of
from delegatec.diagnostics import DelegatecError
from tests.oracle.xnnpack_blob import run_in_runtime
from tests.oracle.xnnpack_refusals import CRASHED, RAN, REFUSED, WRONG, changed, outcomes

# Operations whose result may have any type, or some wrong ones: elements are written in that of the operand.
_UNCHECKED_RESULTS: Final = frozenset(
    {"Softmax", "AveragePooling", "GlobalAveragePooling", "ResizeBilinear", "ArgMaxPooling"}
)
# Others that run, with wrong values: biases are read as float16, rows of odd lengths from the wrong address.
_WRONG: Final = frozenset(
    {
        "Convolution: FLOAT32, FLOAT16, FLOAT32, FLOAT32",
        "TransposedConvolution: FLOAT32, FLOAT16, FLOAT32, FLOAT32",
        "FullyConnected: INT8, CHANNEL_INT4, INT8",
        "FullyConnected: INT8, CHANNEL_INT4, CHANNEL_INT32, INT8",
    }
)


def test_types() -> None:
    """Each combination of types that differs in one position from one that the runtime computes.

    Of those that our reader refuses and the runtime does, too, every fourth one runs; all with the variable
    EVERY_CASE.
    """
    found = [(each, each.is_refused_here()) for each in changed(CASES)]
    assert len(found) > 3000
    step = 1 if os.environ.get("EVERY_CASE") else 4
    found = [
        (each, is_refused)
        for number, (each, is_refused) in enumerate(found)
        if not is_refused
        or number % step == 0
        or each.name in _WRONG
        or each.name.split(":")[0] in _UNCHECKED_RESULTS
    ]
    accepted, unchecked, wrong = set(), set(), set()
    for (each, is_refused), outcome in zip(found, outcomes([each.run for each, _ in found]), strict=True):
        assert outcome != CRASHED, each.name
        if not is_refused:
            assert outcome == RAN, each.name
            accepted.add(each.name)
        elif outcome == RAN:
            operation = each.name.split(":")[0]
            (unchecked if operation in _UNCHECKED_RESULTS else wrong).add(each.name)
    assert len(accepted) > 70
    assert wrong == _WRONG
    assert {name.split(":")[0] for name in unchecked} == _UNCHECKED_RESULTS


def _value(graph: Any, id: int) -> Any:
    return next(value for value in graph.values if tensor_of(value).id == id)


def _tensor(id: int, field: str, content: Any) -> Callable[[Blob], None]:
    return lambda blob: setattr(tensor_of(_value(blob.graph, id)), field, content)


def _attention(blob: Blob) -> None:
    blob.graph.nodes[-1].operationType = Operation.Attention
    blob.graph.nodes[-1].operation = schema.AttentionT(18, 18, 18, 18, 18, 20, 0)


def _transposed_first(blob: Blob) -> None:
    matrix = blob.value(DataType.FLOAT32, (3, 8))
    blob.graph.nodes[-1].operation.outputId = matrix
    blob.node("BatchMatrixMultiply", matrix, 18, 20, 2)


def _steep_sum(blob: Blob) -> None:
    quantization_of(_value(blob.graph, 15))[1].scale = 1e-3


def _groups_of_nothing(blob: Blob) -> None:
    quantization_of(_value(blob.graph, 17))[1].groupSize = 0


def _other_order(blob: Blob) -> None:
    blob.graph.nodes.reverse()


def _no_channels(blob: Blob) -> None:
    blob.graph.nodes[0].operationType = Operation.DepthwiseConvolution
    blob.graph.nodes[0].operation.groupInputChannels = 0


def _forty_dimensions(blob: Blob) -> None:
    blob.graph.nodes[1].operationType = Operation.Slice
    blob.graph.nodes[1].operation = schema.SliceT(40, [0] * 40, [0] * 40, 13, 14, 0)


_DAMAGES: Final[dict[str, tuple[Callable[[Blob], object], str]]] = {
    "as it is": (lambda blob: None, RAN),
    "attention": (_attention, REFUSED),
    "a first operand that is transposed": (_transposed_first, REFUSED),
    "a packed type": (_tensor(18, "dataType", DataType.PACKED_FLOAT32), REFUSED),
    "an unknown id": (lambda blob: setattr(blob.graph.nodes[1].operation, "inputId", 99), REFUSED),
    "an id of two values": (_tensor(13, "id", 14), REFUSED),
    "an output that is not computed": (lambda blob: blob.graph.nodes.pop(2), REFUSED),
    "a value with flag 4": (_tensor(10, "flags", 4), REFUSED),
    "an output without an external id": (_tensor(15, "externalId", 2**32 - 1), CRASHED),
    "groups of no inputs": (_groups_of_nothing, CRASHED),
    "a depthwise convolution without channels": (_no_channels, CRASHED),
    "forty dimensions of a slice": (_forty_dimensions, CRASHED),
    "a bias that another operation reads": (
        lambda blob: setattr(blob.graph.nodes[-2].operation, "biasId", 19),
        CRASHED,
    ),
    "nodes in another order": (_other_order, RAN),
    "a sum of scales too far apart": (_steep_sum, WRONG),
    "a missing key": (lambda blob: blob.named.popitem(), REFUSED),
    "no named data": (lambda blob: blob.named.clear(), CRASHED),
}


@pytest.mark.parametrize("name", _DAMAGES)
def test_damages(name: str) -> None:
    damage, wanted = _DAMAGES[name]
    inputs = [torch.arange(-36, 36, dtype=torch.int8).reshape(1, 6, 6, 2), torch.ones(3, 64)]
    whole = network()
    executor = XnnpackReferenceExecutor(read_blob(memoryview(whole.data())))
    executor.load_named_data(whole.named_data())
    right = executor(inputs)

    def run() -> None:
        blob = network()
        damage(blob)
        found = run_in_runtime(blob.data(), blob.named, inputs, right)
        same = all(
            torch.allclose(one.float(), other.float()) for one, other in zip(found, right, strict=True)
        )
        if not same:
            raise AssertionError

    (outcome,) = outcomes([run])
    assert outcome == wanted
    damaged = network()
    damage(damaged)
    assert (wanted == RAN and name != "nodes in another order") == (_refusal(damaged) == "")


def _refusal(blob: Blob) -> str:
    """Returns the code with which we refuse a blob, when it is read or run."""
    try:
        executor = XnnpackReferenceExecutor(read_blob(memoryview(blob.data())))
        executor.load_named_data(blob.named_data())
        executor([torch.zeros(1, 6, 6, 2, dtype=torch.int8), torch.zeros(3, 64)])
    except DelegatecError as error:
        return error.diagnostics[0].code
    return ""


def test_maxima_that_nothing_reads() -> None:
    """The runtime writes them to no memory."""
    image = torch.rand(2, 8, 9, 5)
    fields: list[Any] = [0, 0, 0, 0, 2, 3, In(image), Out(), Out(torch.int32), 0]
    whole = Case("positions", "ArgMaxPooling", fields)
    values, indices = whole.run()

    def blob_without(result: int) -> Blob:
        blob = whole.blob()
        results = [tensor_of(each) for each in blob.graph.values if tensor_of(each).flags == OUTPUT]
        results[result].flags, results[result].externalId = 0, NO_VALUE
        results[1 - result].externalId = blob.graph.numExternals = 1
        blob.graph.numExternals += 1
        return blob

    def run(result: int) -> Callable[[], None]:
        blob = blob_without(result)
        return lambda: _agrees(blob, image, indices if result == 0 else values)

    assert outcomes([lambda: _agrees(whole.blob(), image, values, indices.long())]) == [RAN]
    assert outcomes([run(0), run(1)]) == [CRASHED, CRASHED]
    for result in (0, 1):
        with pytest.raises(DelegatecError, match="which nothing reads"):
            read_blob(memoryview(blob_without(result).data()))


def _agrees(blob: Blob, image: torch.Tensor, *wanted: torch.Tensor) -> None:
    for found, each in zip(run_in_runtime(blob.data(), blob.named, [image], wanted), wanted, strict=True):
        torch.testing.assert_close(found, each)
