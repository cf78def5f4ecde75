# SPDX-License-Identifier: Apache-2.0
"""The MPS backend as a `Backend`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from delegatec.backends.common.backend import TableBackend
from delegatec.backends.common.precision import precision_passes
from delegatec.backends.mps.blob import read_blob
from delegatec.backends.mps.compile_spec import CODEC, Settings
from delegatec.backends.mps.graph import blob_graph
from delegatec.backends.mps.operators.rewrites import REWRITES
from delegatec.backends.mps.operators.table import TABLE
from delegatec.backends.mps.preprocess import preprocess
from delegatec.backends.mps.reference.executor import MpsReferenceExecutor
from delegatec.delegation import BlobGraph, CompileSpec, PartitionView, PreprocessResult, ReferenceExecutor


class MpsBackend(TableBackend[Settings]):
    """Compiles partitions to blobs of the MPS runtime."""

    def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
        """See `Backend.preprocess`. Raises DC406 for each constant out of float16's range."""
        return preprocess(view, self.settings(compile_specs))

    def reference(self, blob: memoryview, compile_specs: Sequence[CompileSpec]) -> ReferenceExecutor:
        """See `Backend.reference`. The settings are not used."""
        return MpsReferenceExecutor(read_blob(blob))

    def graph(self, blob: memoryview) -> BlobGraph:
        """See `Backend.graph`."""
        return blob_graph(read_blob(blob))


MPS: Final = MpsBackend("mps", CODEC, TABLE, REWRITES, precision_passes)
