# SPDX-License-Identifier: Apache-2.0
"""The reference executor: builds the values of a blob's graph one operation after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from delegatec_schemas.mps_graph import GraphType, Operation, ValueT

from delegatec.backends.mps.blob import Blob
from delegatec.backends.mps.reference import compute, elementwise, movement
from delegatec.backends.mps.reference.movement import format_dtype, ints, mps_shape
from delegatec.backends.mps.reference.run import Run, Semantics, refuse

OPERATION_NAMES: Final[dict[int, str]] = {
    value: name for name, value in vars(Operation).items() if not name.startswith("_") and value
}
SEMANTICS: Final[dict[str, Semantics]] = {**elementwise.SEMANTICS, **compute.SEMANTICS, **movement.SEMANTICS}


class MpsReferenceExecutor:
    """Runs one blob.

    Args:
        blob: the blob, as read.
    """

    def __init__(self, blob: Blob) -> None:
        self._blob = blob

    @property
    def num_inputs(self) -> int:
        """How many inputs the blob takes."""
        return len(self._blob.graph.inputIds)

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the blob.

        Args:
            inputs: the delegate's inputs, of the dtypes and numbers of elements that the blob declares.

        Returns:
            Its outputs, of the shapes and dtypes that the blob declares.

        Raises:
            DelegatecError: DC408 where the runtime would stop, or would read or write a buffer as
                another dtype than it has.
        """
        graph = self._blob.graph
        if graph.graphType != GraphType.MPS_GRAPH:
            refuse("kernels for single operators are not implemented in it")
        if graph.inputIds != list(range(len(graph.inputIds))):
            refuse(f"its inputs have the ids {graph.inputIds}, and are looked up by position")
        if len(inputs) != len(graph.inputIds):
            refuse(f"{len(inputs)} inputs are given, and it has {len(graph.inputIds)}")
        run = Run(len(graph.mpsValues))
        for id, tensor in zip(graph.inputIds, inputs, strict=True):
            run[id] = _as_declared(tensor, graph.mpsValues[id], f"input {id}").reshape(
                mps_shape(graph.mpsValues[id].dims)
            )
        for id in graph.constantIds:
            run[id] = self._constant(id)
        for node in graph.mpsNodes:
            name = OPERATION_NAMES[node.mpsnodeUnionType]
            if name not in SEMANTICS:
                refuse(f"it has no operation {name}")
            SEMANTICS[name](run, node.mpsnodeUnion, node)
        return [_as_declared(run[id], graph.mpsValues[id], f"output {id}") for id in graph.outputIds]

    def _constant(self, id: int) -> torch.Tensor:
        value = self._blob.graph.mpsValues[id]
        dtype, shape = format_dtype(value.datatype), mps_shape(value.dims)
        data = bytearray(self._blob.constant(value))
        if len(data) != torch.Size(shape).numel() * dtype.itemsize:
            refuse(f"constant {id} of shape {shape} and {dtype} has {len(data)} bytes")
        return torch.frombuffer(data, dtype=dtype).reshape(shape)


def _as_declared(tensor: torch.Tensor, value: ValueT, what: str) -> torch.Tensor:
    shape = ints(value.dims)
    if tensor.dtype != format_dtype(value.datatype) or tensor.numel() != torch.Size(shape).numel():
        refuse(
            f"{what} is declared as {shape} of {format_dtype(value.datatype)}, and is {list(tensor.shape)} "
            f"of {tensor.dtype}"
        )
    return tensor.reshape(shape).contiguous()
