# SPDX-License-Identifier: Apache-2.0
"""The MLX backend as a `Backend`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch._ops import OpOverload

from delegatec.backends.common.backend import TableBackend
from delegatec.backends.common.precision import precision_passes
from delegatec.backends.mlx.blob import read_blob
from delegatec.backends.mlx.compile_spec import CODEC, KvCache, Settings
from delegatec.backends.mlx.dtypes import ALL
from delegatec.backends.mlx.graph import blob_graph
from delegatec.backends.mlx.layout import layout_passes
from delegatec.backends.mlx.operators.layers.runtime_cache import numbering
from delegatec.backends.mlx.operators.rewrites import REWRITES
from delegatec.backends.mlx.operators.table import TABLE
from delegatec.backends.mlx.partitioner import MlxPartitioner
from delegatec.backends.mlx.preprocess import preprocess
from delegatec.backends.mlx.reference.executor import MlxReferenceExecutor
from delegatec.delegation import BlobGraph, CompileSpec, PartitionView, PreprocessResult, ReferenceExecutor
from delegatec.edge.passes.pass_manager import Pass
from delegatec.edge.passes.recover_rms_norm import recover_rms_norm
from delegatec.edge.recurrent_loops import RECURRENT

_LARGEST_BUFFER: Final = 4 << 30
"""Bytes of a buffer that the runtime allocates."""


class MlxBackend(TableBackend[Settings]):
    """Compiles partitions to blobs of the MLX runtime."""

    partitioner_type = MlxPartitioner

    def preserved_operators(self) -> frozenset[OpOverload]:
        """See `TableBackend.preserved_operators`. The preparation computes recurrent layers."""
        return super().preserved_operators() | RECURRENT

    def orders_boundary(self, value: torch.Tensor) -> bool:
        """See `Backend.orders_boundary`. Images are channels-last in graphs."""
        return True

    def keeps(self, initial: torch.Tensor) -> bool:
        """See `Backend.keeps`. Buffers of the runtime are zero at first."""
        if initial.dtype not in ALL or not initial.numel() or initial.nbytes > _LARGEST_BUFFER:
            return False
        return not bool(initial.any())

    def passes(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> Sequence[Pass]:
        """See `Backend.passes`. The last ones choose the layout of each value.

        Raises DC426 for each cache that the runtime shall own, and cannot.
        """
        settings = self.settings(compile_specs)
        first = [numbering(view)] if settings.kv_cache is KvCache.RUNTIME else []
        return [*first, *super().passes(view, compile_specs), *layout_passes(view, self._target(settings))]

    def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
        """See `Backend.preprocess`. Raises DC406 for each constant out of float16's range."""
        return preprocess(view, self.settings(compile_specs))

    def reference(self, blob: memoryview, compile_specs: Sequence[CompileSpec]) -> ReferenceExecutor:
        """See `Backend.reference`. The settings are not used."""
        return MlxReferenceExecutor(read_blob(blob))

    def graph(self, blob: memoryview) -> BlobGraph:
        """See `Backend.graph`."""
        return blob_graph(read_blob(blob))


def _prepare(settings: Settings) -> Sequence[Pass]:
    return [recover_rms_norm, *precision_passes(settings)]


MLX: Final = MlxBackend("mlx", CODEC, TABLE, REWRITES, _prepare)
