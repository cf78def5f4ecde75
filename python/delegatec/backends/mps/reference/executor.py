# SPDX-License-Identifier: Apache-2.0
"""The reference executor: computes the values of a blob's graph in order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Final

import torch
from delegatec_schemas.mps_graph import DataType, GraphType, ValueT

from delegatec.backends.common.liveness import last_uses
from delegatec.backends.mps.blob import Blob
from delegatec.backends.mps.operands import OPERATION_NAMES, value_ids
from delegatec.backends.mps.reference import (
    activation,
    binary,
    convolution,
    creation,
    indexing,
    linear_algebra,
    normalization,
    pooling,
    shape,
    unary,
)
from delegatec.backends.mps.reference.constants import constant_tensor, unpack_int4
from delegatec.backends.mps.reference.run import (
    MAX_ELEMENTS,
    Run,
    Semantics,
    format_dtype,
    ints,
    mps_shape,
    reject,
)
from delegatec.backends.mps.reference.unspecified import DEFAULT, Unspecified
from delegatec.delegation import ReferenceExecutor
from delegatec.edge.arguments import short_name

SEMANTICS: Final[dict[str, Semantics]] = {
    **activation.SEMANTICS,
    **binary.SEMANTICS,
    **creation.SEMANTICS,
    **convolution.SEMANTICS,
    **indexing.SEMANTICS,
    **linear_algebra.SEMANTICS,
    **normalization.SEMANTICS,
    **pooling.SEMANTICS,
    **shape.SEMANTICS,
    **unary.SEMANTICS,
}


class MpsReferenceExecutor(ReferenceExecutor):
    """Runs one blob.

    An operation is rejected before it is computed if the runtime or MPSGraph would reject its shapes or
    dtypes when compiling the graph.

    Args:
        blob: the blob.
        unspecified: choices for unspecified behavior of MPSGraph.
        max_elements: the largest value; a damaged blob can request more memory than exists.
    """

    def __init__(
        self, blob: Blob, unspecified: Unspecified = DEFAULT, max_elements: int = MAX_ELEMENTS
    ) -> None:
        self.num_inputs = len(blob.graph.inputIds)
        self._blob = blob
        self._unspecified = unspecified
        self._max_elements = max_elements
        self._types: list[tuple[torch.dtype, list[int]] | None] = [None] * len(blob.graph.mpsValues)

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the blob.

        Args:
            inputs: the delegate's inputs, of the dtypes and element counts that the blob declares.

        Returns:
            Its outputs, of the shapes and dtypes that the blob declares.

        Raises:
            DelegatecError: DC408 if the runtime would abort, or would read or write a buffer with the wrong
                dtype; DC440 if the result is unspecified, and the choice is to raise.
        """
        graph = self._blob.graph
        self._check_graph()
        if len(inputs) != len(graph.inputIds):
            reject(f"{len(inputs)} inputs instead of {len(graph.inputIds)}")
        run = Run(len(graph.mpsValues), self._unspecified, self._max_elements, self._read)
        for id, tensor in zip(graph.inputIds, inputs, strict=True):
            value = graph.mpsValues[id]
            run[id] = _as_declared(tensor, value, f"input {id}").reshape(mps_shape(value.dims))
        self._build(run)
        self._types = run.types
        return [_as_declared(run[id], graph.mpsValues[id], f"output {id}") for id in graph.outputIds]

    def mismatches(self) -> list[str]:
        """Returns values whose declared dtype or shape differs from the last run.

        The runtime reads the declarations of inputs and constants only, and the peer declares the
        intermediate values of a float16 graph as float32.
        """
        found = []
        for id, (value, found_type) in enumerate(zip(self._blob.graph.mpsValues, self._types, strict=True)):
            if found_type is None:
                continue
            dtype, shape = format_dtype(value.datatype), ints(value.dims)
            if found_type not in ((dtype, shape), (dtype, shape or [1])):
                declared = f"{short_name(dtype)}{shape}"
                found.append(
                    f"value {id} is declared as {declared} and is {short_name(found_type[0])}{found_type[1]}"
                )
        return found

    def _check_graph(self) -> None:
        graph = self._blob.graph
        if graph.graphType != GraphType.MPS_GRAPH:
            reject("kernels for single operators are not implemented")
        if graph.inputIds != list(range(len(graph.inputIds))):
            reject(f"its inputs have the ids {graph.inputIds}, but are identified by position")
        given = {*graph.inputIds, *graph.constantIds}
        duplicate = len(set(graph.outputIds)) < len(graph.outputIds) or given & set(graph.outputIds)
        self._unspecified.choose(
            "outputs", lambda: bool(duplicate), "an output that is an input, a constant or another output"
        )

    @cached_property
    def _read(self) -> frozenset[int]:
        """Returns ids of outputs and ids that occur in several operations: an unread result occurs once."""
        uses = Counter(id for node in self._blob.graph.mpsNodes for id in value_ids(node.mpsnodeUnion))
        return frozenset(id for id, count in uses.items() if count > 1) | {*self._blob.graph.outputIds}

    def _build(self, run: Run) -> None:
        graph = self._blob.graph
        for id in graph.constantIds:
            if graph.mpsValues[id].datatype == DataType.INT4:
                run.set_int4(id, unpack_int4(self._blob, id))
            else:
                run[id] = constant_tensor(self._blob, id)
        for node, last in zip(graph.mpsNodes, self._last_uses, strict=True):
            name = OPERATION_NAMES[node.mpsnodeUnionType]
            if name not in SEMANTICS:
                reject(f"it has no operation {name}")
            try:
                SEMANTICS[name](run, node.mpsnodeUnion, node)
            except RuntimeError as error:
                # Operands that the checks missed, and torch rejects.
                reject(f"{name}: {str(error).splitlines()[0]}")
            run.forget(last)

    @cached_property
    def _last_uses(self) -> list[list[int]]:
        operations = [value_ids(node.mpsnodeUnion) for node in self._blob.graph.mpsNodes]
        return last_uses(operations, self._blob.graph.outputIds)


def _as_declared(tensor: torch.Tensor, value: ValueT, what: str) -> torch.Tensor:
    declared, dtype = ints(value.dims), format_dtype(value.datatype)
    if tensor.dtype != dtype or tensor.numel() != math.prod(declared):
        reject(
            f"{what} is declared as {short_name(dtype)}{declared}, and is "
            f"{short_name(tensor.dtype)}{list(tensor.shape)}"
        )
    return tensor.reshape(declared).contiguous()
