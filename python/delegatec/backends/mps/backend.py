# SPDX-License-Identifier: Apache-2.0
"""The MPS backend as a `Backend`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from torch._ops import OpOverload

from delegatec.backends.common.legality import TableTarget
from delegatec.backends.common.partitioner import TablePartitioner
from delegatec.backends.common.precision import to_float16
from delegatec.backends.mps.blob import read_blob
from delegatec.backends.mps.compile_spec import OPTIONS, Precision, Settings, settings_of, specs_for
from delegatec.backends.mps.graph import blob_graph
from delegatec.backends.mps.operators.table import TABLE
from delegatec.backends.mps.preprocess import preprocess
from delegatec.backends.mps.reference.executor import MpsReferenceExecutor
from delegatec.delegation import (
    BlobGraph,
    CompileSpec,
    DelegationSpec,
    OptionSpec,
    PartitionView,
    PreprocessResult,
    ReferenceExecutor,
    resolve_options,
)
from delegatec.edge.legalize.rule import preserved
from delegatec.edge.legalize.rules import REWRITES
from delegatec.edge.passes.pass_manager import Pass
from delegatec.edge.program import EdgeProgram


@cache
def target(settings: Settings) -> TableTarget[Settings]:
    """Returns the MPS runtime as a target: rows of the table, and rewrites for other calls."""
    return TableTarget(TABLE, REWRITES, settings)


class MpsBackend:
    """Compiles partitions to blobs of the MPS runtime."""

    id: Final = "MPSBackend"
    name: Final = "mps"
    options: Final[Mapping[str, OptionSpec]] = OPTIONS

    def compile_specs(self, options: Mapping[str, Any]) -> list[CompileSpec]:
        """See `Backend.compile_specs`."""
        return specs_for(resolve_options(self.name, self.options, options))

    def preserved_operators(self) -> frozenset[OpOverload]:
        """Returns the composites with a lowering that is better than their decomposition."""
        return TABLE.preserved() | preserved(REWRITES)

    def partitioner(self, compile_specs: Sequence[CompileSpec]) -> TablePartitioner[Settings]:
        """See `Backend.partitioner`."""
        settings = settings_of(compile_specs)
        delegation = DelegationSpec(self.id, tuple(compile_specs))
        return TablePartitioner(target(settings), delegation, _precision(settings))

    def passes(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> Sequence[Pass]:
        """See `HasPasses.passes`."""
        settings = settings_of(compile_specs)
        mps = target(settings)

        def legalize(program: EdgeProgram) -> bool:
            return mps.legalize(program, view.facts_in(program))

        precision = _precision(settings)
        return [*precision, legalize] if precision or mps.needs_rewrites(view.nodes, view.facts) else []

    def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
        """See `Backend.preprocess`. Raises DC406 for every weight beyond float16."""
        return preprocess(view, settings_of(compile_specs))

    def reference(self, blob: memoryview, compile_specs: Sequence[CompileSpec]) -> ReferenceExecutor:
        """See `Backend.reference`. The settings are not used."""
        return MpsReferenceExecutor(read_blob(blob))

    def graph(self, blob: memoryview) -> BlobGraph:
        """See `Backend`."""
        return blob_graph(read_blob(blob))


def _precision(settings: Settings) -> list[Pass]:
    return [to_float16] if settings.precision is Precision.FP16 else []


MPS: Final = MpsBackend()
