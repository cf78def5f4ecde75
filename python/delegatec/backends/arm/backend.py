# SPDX-License-Identifier: Apache-2.0
"""The TOSA backend as a `Backend`: its blobs are TOSA graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

from delegatec.backends.arm.blob import read_blob, write_blob
from delegatec.backends.arm.graph import blob_graph
from delegatec.backends.arm.integer.legality import convert_quantized_regions
from delegatec.backends.arm.layout import layout_passes, merge_integer_dimensions
from delegatec.backends.arm.operators.rewrites import REWRITES
from delegatec.backends.arm.operators.table import TABLE
from delegatec.backends.arm.partitioner import ArmPartitioner
from delegatec.backends.arm.preprocess import lowered
from delegatec.backends.arm.reference import TosaReferenceExecutor
from delegatec.backends.arm.settings import Settings
from delegatec.backends.arm.specification import TosaSpecification
from delegatec.backends.arm.target import TosaTarget
from delegatec.backends.common.backend import TableBackend
from delegatec.backends.common.settings import Setting, SettingsCodec
from delegatec.delegation import BlobGraph, CompileSpec, PartitionView, PreprocessResult, ReferenceExecutor
from delegatec.delegation.protocol.mapping import debug_map_of
from delegatec.edge.passes.pass_manager import Pass
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import QUANTIZATIONS

CODEC: Final = SettingsCodec(
    "TOSABackend",
    Settings(),
    {
        "specification": Setting(
            "the consumer of the graphs: TOSA-1.0 with its profiles and extensions, as in TOSA-1.0+INT+int16",
            key="tosa_spec",
            parse=TosaSpecification.parse,
        ),
    },
)


class ArmBackend(TableBackend[Settings]):
    """The lowering to TOSA graphs, for backends whose blobs are these graphs, or compiled from them."""

    partitioner_type = ArmPartitioner
    target_type = TosaTarget

    def boundary_dtype(self, dtype: torch.dtype) -> torch.dtype:
        """See `Backend.boundary_dtype`. Runtimes copy bytes, and TOSA has no int64."""
        return torch.int32 if dtype == torch.int64 else dtype

    def orders_boundary(self, value: torch.Tensor) -> bool:
        """See `Backend.orders_boundary`. Images are channels-last in graphs."""
        return True

    def passes(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> Sequence[Pass]:
        """See `Backend.passes`. The last ones choose the layout of each value."""
        settings = self.settings(compile_specs)
        target = self._target(settings)
        found = super().passes(view, compile_specs)
        layout = layout_passes(view, target)
        if not settings.specification.integer or not any(
            node.target in QUANTIZATIONS for node in (*view.nodes, *view.body_nodes())
        ):
            return [*found, *layout]

        def integer(program: EdgeProgram) -> bool:
            return convert_quantized_regions(program, view.facts_in(program), target)

        return [*found[:-1], integer, *found[-1:], *layout, merge_integer_dimensions]


class TosaBackend(ArmBackend):
    """Compiles partitions to TOSA graphs."""

    blob_suffix = ".tosa"

    def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
        """See `Backend.preprocess`. Raises DC406 for each constant that TOSA cannot represent."""
        builder = lowered(view, self.settings(compile_specs))
        origins = (nodes for part in builder.walk() for nodes in part.origins)
        return PreprocessResult(write_blob(builder), debug_map_of(origins))

    def reference(self, blob: memoryview, compile_specs: Sequence[CompileSpec]) -> ReferenceExecutor:
        """See `Backend.reference`. The settings are not used."""
        return TosaReferenceExecutor(read_blob(blob))

    def graph(self, blob: memoryview) -> BlobGraph:
        """See `Backend.graph`."""
        return blob_graph(read_blob(blob))


TOSA: Final = TosaBackend("tosa", CODEC, TABLE, REWRITES)
