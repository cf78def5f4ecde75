# SPDX-License-Identifier: Apache-2.0
"""The XNNPACK backend as a `Backend`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch._ops import OpOverload

from delegatec.backends.common.backend import TableBackend
from delegatec.backends.common.precision import precision_passes
from delegatec.backends.xnnpack.blob import read_blob
from delegatec.backends.xnnpack.compile_spec import CODEC, Settings
from delegatec.backends.xnnpack.events import operations_of
from delegatec.backends.xnnpack.graph import blob_graph
from delegatec.backends.xnnpack.layout import layout_passes
from delegatec.backends.xnnpack.operators.rewrites import REWRITES
from delegatec.backends.xnnpack.operators.table import TABLE
from delegatec.backends.xnnpack.partitioner import XnnpackPartitioner
from delegatec.backends.xnnpack.preprocess import preprocess
from delegatec.backends.xnnpack.quantized.bounds import clamp_quantized_values
from delegatec.backends.xnnpack.quantized.casts import fold_casts
from delegatec.backends.xnnpack.quantized.dynamic_quantization import order_images, quantize_dynamically
from delegatec.backends.xnnpack.quantized.hoist_quantize import (
    quantize_after_clamps,
    quantize_before_moves,
    snap_bounds,
)
from delegatec.backends.xnnpack.quantized.products import recover_linear
from delegatec.backends.xnnpack.quantized.scales import scale_of
from delegatec.backends.xnnpack.quantized.transposed import linear_of_transposed
from delegatec.backends.xnnpack.quantized.value_sets import remove_repeated
from delegatec.backends.xnnpack.reference.executor import XnnpackReferenceExecutor
from delegatec.backends.xnnpack.target import XnnpackTarget
from delegatec.delegation import (
    BlobGraph,
    CompileSpec,
    DelegateMemory,
    PartitionView,
    PreprocessResult,
    ReferenceExecutor,
)
from delegatec.edge.passes.pass_manager import Pass
from delegatec.edge.passes.sign_activations import sign_activations
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import DYNAMIC
from delegatec.edge.recurrent_loops import RECURRENT

# Bytes of an executor of the runtime of 1.5.1 for Linux, x86-64 and aarch64, in the method allocator. Packed
# weights and the workspace are in memory of malloc.
_EXECUTOR_BYTES: Final = 272


class XnnpackBackend(TableBackend[Settings]):
    """Compiles partitions to blobs of the XNNPACK runtime."""

    partitioner_type = XnnpackPartitioner
    target_type = XnnpackTarget

    def preserved_operators(self) -> frozenset[OpOverload]:
        """See `TableBackend.preserved_operators`.

        Layers quantize values at run time. The preparation computes recurrent layers.
        """
        return super().preserved_operators() | DYNAMIC | RECURRENT | {torch.ops.aten._int_mm.default}

    def orders_boundary(self, value: torch.Tensor) -> bool:
        """See `Backend.orders_boundary`. Images are channels-last in graphs."""
        return True

    def passes(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> Sequence[Pass]:
        """See `Backend.passes`. The last ones choose the layout of each value."""
        target = self._target(self.settings(compile_specs))
        return [*super().passes(view, compile_specs), order_images, *layout_passes(view, target)]

    def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
        """See `Backend.preprocess`. Raises DC406 for each constant out of float16's range."""
        return preprocess(view, self.settings(compile_specs))

    def graph(self, blob: memoryview) -> BlobGraph:
        """See `Backend.graph`. Raises DC407 for a damaged blob."""
        return blob_graph(read_blob(blob))

    def memory(self, blob: memoryview) -> DelegateMemory:
        """See `Backend.memory`."""
        return DelegateMemory(handle=_EXECUTOR_BYTES, temporary=0)

    def profiled_operations(
        self, blob: memoryview, events: Sequence[str | int]
    ) -> Sequence[str | int | None]:
        """See `Backend.profiled_operations`. Raises DC407 for a damaged blob."""
        names = [node.operation for node in self.graph(blob).nodes]
        return operations_of(names, [str(event) for event in events])

    def reference(self, blob: memoryview, compile_specs: Sequence[CompileSpec]) -> ReferenceExecutor:
        """See `Backend.reference`."""
        return XnnpackReferenceExecutor(read_blob(blob))


def _sign_activations(program: EdgeProgram) -> bool:
    """Weights have a scale for each channel with activations of int8 only."""
    return sign_activations(program, lambda each: scale_of(each) is not None)


_QUANTIZATION: Final = (
    clamp_quantized_values,
    _sign_activations,
    quantize_before_moves,
    snap_bounds,
    remove_repeated,
    quantize_after_clamps,
    quantize_dynamically,
    recover_linear,
    linear_of_transposed,
)


def _prepare(settings: Settings) -> Sequence[Pass]:
    narrow = precision_passes(settings)
    return [*_QUANTIZATION, *narrow, *([fold_casts] if narrow else [])]


XNNPACK: Final = XnnpackBackend("xnnpack", CODEC, TABLE, REWRITES, _prepare)
