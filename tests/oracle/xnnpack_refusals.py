# SPDX-License-Identifier: Apache-2.0
"""Blobs whose types differ from those of kernels, and the behavior of the stock runtime on them."""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import Content, DataType, Quantization

from delegatec.backends.xnnpack.blob import read_blob
from delegatec.backends.xnnpack.checking.values import TYPE_NAMES
from delegatec.backends.xnnpack.operands import operand_ids, result_ids
from delegatec.backends.xnnpack.reference.testing import Blob
from delegatec.backends.xnnpack.testing.reference.cases import Case
from delegatec.backends.xnnpack.values import tensor_of
from delegatec.diagnostics import DelegatecError
from tests.oracle.xnnpack_blob import run_in_runtime

RAN: Final = "runs"
REFUSED: Final = "refuses"
CRASHED: Final = "crashes"
_MOST_SECONDS: Final = 60
WRONG: Final = "computes wrong values"
_OUTCOMES: Final = (RAN, REFUSED, WRONG)
ACTIVATIONS: Final = (
    *(DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16, DataType.INT32, DataType.INT8, DataType.UINT8),
    DataType.DYNAMIC_INT8,
)
CONSTANTS: Final = (
    *(DataType.FLOAT32, DataType.FLOAT16, DataType.INT8, DataType.UINT8, DataType.BIAS_INT32),
    *(DataType.CHANNEL_INT8, DataType.CHANNEL_INT32, DataType.CHANNEL_INT4, DataType.GROUP_INT4),
)


@dataclass(frozen=True)
class Changed:
    """A case in which a value has another type.

    Attributes:
        case: the case.
        index: index of the value among the operands and results of its last node.
        data_type: its type.
    """

    case: Case
    position: int
    data_type: int

    @property
    def name(self) -> str:
        """Operation, and types of operands and results."""
        blob = self.blob()
        types = {tensor_of(value).id: tensor_of(value).dataType for value in blob.graph.values}
        ids = _ids(blob)
        return f"{self.case.operation}: {', '.join(TYPE_NAMES[types[id]] for id in ids)}"

    def blob(self) -> Blob:
        """Returns the blob."""
        blob = self.case.blob()
        _set_type(blob, _ids(blob)[self.position], self.data_type)
        return blob

    def is_refused_here(self) -> bool:
        """Returns whether our reader refuses it."""
        try:
            read_blob(memoryview(self.blob().data()))
        except DelegatecError:
            return True
        return False

    def run(self) -> None:
        """Runs it in the stock runtime; raises RuntimeError if that refuses it."""
        blob = self.blob()
        # the runtime does not compare dtypes with those of the blob: eight bytes fit each of them
        inputs = [torch.zeros(value.shape, dtype=torch.float64) for value in self.case.inputs]
        outputs = [torch.zeros(value.shape, dtype=torch.float64) for value in self.case.run()]
        run_in_runtime(blob.data(), blob.named, inputs, outputs)


def _ids(blob: Blob) -> list[int]:
    node = blob.graph.nodes[-1]
    return [*operand_ids(node), *result_ids(node)]


def _set_type(blob: Blob, id: int, data_type: int) -> None:
    """Gives a value another type, with scales that fit, and a constant with enough bytes."""
    (position,) = (position for position, each in enumerate(blob.graph.values) if tensor_of(each).id == id)
    tensor: Any = tensor_of(blob.graph.values[position])
    tensor.dataType = data_type
    quantization = _quantization(tensor)
    if quantization is None:
        blob.graph.values[position] = schema.ValueT(Content.Tensor, tensor)
    else:
        content = schema.QuantizedTensorT(tensor, *quantization)
        blob.graph.values[position] = schema.ValueT(Content.QuantizedTensor, content)
    if tensor.constantId:
        count = 1
        for size in tensor.dims:
            count *= size
        tensor.constantId = blob.stored(bytes(4 * count))


def _quantization(tensor: Any) -> tuple[int, Any] | None:
    if tensor.dataType in (DataType.INT8, DataType.UINT8, DataType.BIAS_INT32):
        return Quantization.ScaleOfTensor, schema.ScaleOfTensorT(0.5, 0)
    if tensor.dataType == DataType.DYNAMIC_INT8:
        return Quantization.ScalesOfRows, schema.ScalesOfRowsT(1 if tensor.dims else 0)
    if tensor.dataType == DataType.GROUP_INT4:
        count = tensor.dims[0] * (tensor.dims[-1] // 32) if tensor.dims else 0
        return Quantization.ScalesOfGroups, schema.ScalesOfGroupsT([0.5] * count, 0, 32, 0, 0)
    if tensor.dataType in (DataType.CHANNEL_INT8, DataType.CHANNEL_INT4, DataType.CHANNEL_INT32):
        # depthwise filters have their channels in the last dimension
        dim = len(tensor.dims) - 1 if tensor.dims and tensor.dims[0] == 1 else 0
        scales = [0.5] * (tensor.dims[dim] if tensor.dims else 0)
        return Quantization.ScalesOfChannels, schema.ScalesOfChannelsT(scales, dim, 0, len(scales))
    return None


def changed(cases: Sequence[Case]) -> Iterator[Changed]:
    """Yields each case with each other type of one of its values."""
    seen = set()
    for case in cases:
        blob = case.blob()
        tensors = {tensor_of(value).id: tensor_of(value) for value in blob.graph.values}
        for position, id in enumerate(_ids(blob)):
            for data_type in CONSTANTS if tensors[id].constantId else ACTIVATIONS:
                if data_type == tensors[id].dataType or (
                    data_type == DataType.DYNAMIC_INT8 and tensors[id].flags
                ):
                    continue
                if data_type == DataType.GROUP_INT4 and (
                    len(tensors[id].dims) != 2 or tensors[id].dims[1] % 32
                ):
                    continue
                found = Changed(case, position, data_type)
                if found.name not in seen:
                    seen.add(found.name)
                    yield found


def outcomes(runs: Sequence[Callable[[], object]]) -> list[str]:
    """Returns the behavior of the runtime in each of some runs: in another process, since it may crash.

    Args:
        runs: each raises RuntimeError if the runtime refuses it, AssertionError if results are wrong.
    """
    found: list[str] = []
    while len(found) < len(runs):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            faulthandler.disable()
            for run in runs[len(found) :]:
                signal.alarm(_MOST_SECONDS)
                os.write(writer, bytes([_OUTCOMES.index(_outcome(run))]))
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as file:
            found += [_OUTCOMES[each] for each in file.read()]
        os.waitpid(child, 0)
        if len(found) < len(runs):
            found.append(CRASHED)
    return found


def _outcome(run: Callable[[], object]) -> str:
    try:
        run()
    except RuntimeError:
        return REFUSED
    except AssertionError:
        return WRONG
    return RAN
