# SPDX-License-Identifier: Apache-2.0
"""The XNNPACK backend as a `Backend`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from delegatec.backends.common.backend import TableBackend
from delegatec.backends.common.precision import precision_passes
from delegatec.backends.xnnpack.blob import read_blob
from delegatec.backends.xnnpack.compile_spec import CODEC, Settings
from delegatec.backends.xnnpack.operators.rewrites import REWRITES
from delegatec.backends.xnnpack.operators.table import TABLE
from delegatec.backends.xnnpack.preprocess import preprocess
from delegatec.backends.xnnpack.reference.executor import XnnpackReferenceExecutor
from delegatec.delegation import CompileSpec, PartitionView, PreprocessResult, ReferenceExecutor


class XnnpackBackend(TableBackend[Settings]):
    """Compiles partitions to blobs of the XNNPACK runtime."""

    def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
        """See `Backend.preprocess`. Raises DC406 for each constant beyond float16."""
        return preprocess(view, self.settings(compile_specs))

    def reference(self, blob: memoryview, compile_specs: Sequence[CompileSpec]) -> ReferenceExecutor:
        """See `Backend.reference`."""
        return XnnpackReferenceExecutor(read_blob(blob))


XNNPACK: Final = XnnpackBackend("xnnpack", CODEC, TABLE, REWRITES, precision_passes)
