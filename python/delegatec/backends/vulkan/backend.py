# SPDX-License-Identifier: Apache-2.0
"""The Vulkan backend as a `Backend`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from torch._ops import OpOverload

from delegatec.backends.common.legality import TableTarget
from delegatec.backends.common.partitioner import TablePartitioner
from delegatec.backends.common.precision import to_float16
from delegatec.backends.vulkan.blob import read_blob
from delegatec.backends.vulkan.compile_spec import (
    OPTIONS,
    Precision,
    Settings,
    Storage,
    settings_of,
    specs_for,
)
from delegatec.backends.vulkan.graph import blob_graph
from delegatec.backends.vulkan.memory.assign import assign
from delegatec.backends.vulkan.memory.representation import Representation
from delegatec.backends.vulkan.operators.rewrites import REWRITES
from delegatec.backends.vulkan.operators.table import TABLE, demands_with
from delegatec.backends.vulkan.preprocess import preprocess
from delegatec.backends.vulkan.reference.executor import VulkanReferenceExecutor
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
from delegatec.edge.passes.pass_manager import Pass
from delegatec.edge.program import EdgeProgram

_PREFERENCE: Final = {
    Storage.TEXTURE: (
        Representation.WIDTH,
        Representation.CHANNELS,
        Representation.HEIGHT,
        Representation.BUFFER,
    ),
    Storage.BUFFER: (
        Representation.BUFFER,
        Representation.WIDTH,
        Representation.CHANNELS,
        Representation.HEIGHT,
    ),
}


@cache
def target(settings: Settings) -> TableTarget[Settings]:
    """Returns the Vulkan runtime as a target: rows of the table, and rewrites for other calls."""
    return TableTarget(TABLE, REWRITES, settings)


class VulkanBackend:
    """Compiles partitions to blobs of the Vulkan runtime."""

    id: Final = "VulkanBackend"
    name: Final = "vulkan"
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
        vulkan = target(settings)

        def legalize(program: EdgeProgram) -> bool:
            return vulkan.legalize(program, view.facts_in(program))

        def assign_memory(program: EdgeProgram) -> bool:
            demands = demands_with(settings, lambda node: node.name in program.constants)
            return assign(program, demands, _PREFERENCE[settings.storage], settings.limits)

        return [*_precision(settings), legalize, assign_memory]

    def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
        """See `Backend.preprocess`. Raises DC406 for each constant beyond float16 or int32."""
        return preprocess(view, settings_of(compile_specs))

    def reference(self, blob: memoryview, compile_specs: Sequence[CompileSpec]) -> ReferenceExecutor:
        """See `Backend.reference`. The settings are not used."""
        return VulkanReferenceExecutor(read_blob(blob))

    def graph(self, blob: memoryview) -> BlobGraph:
        """See `Backend`."""
        return blob_graph(read_blob(blob))


def _precision(settings: Settings) -> list[Pass]:
    return [to_float16] if settings.precision is Precision.FP16 else []


VULKAN: Final = VulkanBackend()
