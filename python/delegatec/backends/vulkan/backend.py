# SPDX-License-Identifier: Apache-2.0
"""The Vulkan backend as a `Backend`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

from delegatec.backends.common.backend import TableBackend
from delegatec.backends.common.precision import precision_passes
from delegatec.backends.vulkan.blob import read_blob
from delegatec.backends.vulkan.compile_spec import CODEC, Settings, Storage
from delegatec.backends.vulkan.dtypes import NUMERIC
from delegatec.backends.vulkan.fusion.cancel_conversions import cancel_conversions
from delegatec.backends.vulkan.fusion.fuse_layers import fuse_layers
from delegatec.backends.vulkan.fusion.rotary import fuse_rotary
from delegatec.backends.vulkan.fusion.state import allocate_state
from delegatec.backends.vulkan.fusion.weights import fuse_weights
from delegatec.backends.vulkan.graph import blob_graph
from delegatec.backends.vulkan.memory.assign import assign
from delegatec.backends.vulkan.memory.representation import MOST_TEXTURE_DIMENSIONS, Representation
from delegatec.backends.vulkan.operators.quantized.conversion import is_shifted
from delegatec.backends.vulkan.operators.rewrites import REWRITES
from delegatec.backends.vulkan.operators.table import TABLE, demands_with
from delegatec.backends.vulkan.partitioner import VulkanPartitioner
from delegatec.backends.vulkan.preprocess import preprocess
from delegatec.backends.vulkan.reference.executor import VulkanReferenceExecutor
from delegatec.backends.vulkan.target import VulkanTarget
from delegatec.delegation import BlobGraph, CompileSpec, PartitionView, PreprocessResult, ReferenceExecutor
from delegatec.edge.passes.pass_manager import Pass
from delegatec.edge.passes.recover_rms_norm import recover_rms_norm
from delegatec.edge.passes.sign_activations import sign_activations
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import DEQUANTIZE

_TEXTURES: Final = (Representation.WIDTH, Representation.CHANNELS, Representation.HEIGHT)
_QUANTIZED: Final = tuple(each for each in Representation if each.is_quantized)
_PREFERENCE: Final = {
    Storage.TEXTURE: (*_TEXTURES, Representation.BUFFER, *_QUANTIZED),
    Storage.BUFFER: (Representation.BUFFER, *_TEXTURES, *_QUANTIZED),
}


class VulkanBackend(TableBackend[Settings]):
    """Compiles partitions to blobs of the Vulkan runtime."""

    partitioner_type = VulkanPartitioner
    target_type = VulkanTarget

    def passes(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> Sequence[Pass]:
        """See `Backend.passes`. The last one chooses the memory of each value."""
        settings = self.settings(compile_specs)

        def cancel_quantization(program: EdgeProgram) -> bool:
            return cancel_conversions(program, view.facts_in(program))

        def assign_memory(program: EdgeProgram) -> bool:
            demands = demands_with(settings, lambda node: node.name in program.constants)
            return assign(program, demands, _PREFERENCE[settings.preferred_storage], settings.limits)

        return [*super().passes(view, compile_specs), cancel_quantization, assign_memory]

    def keeps(self, initial: torch.Tensor) -> bool:
        """See `Backend.keeps`. Its initial value is packed like a constant."""
        if initial.dtype not in NUMERIC or not initial.numel() or initial.dim() > MOST_TEXTURE_DIMENSIONS:
            return False
        limits = torch.iinfo(torch.int32)
        return initial.dtype != torch.int64 or bool(((initial >= limits.min) & (initial <= limits.max)).all())

    def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
        """See `Backend.preprocess`. Raises DC406 for each constant beyond float16 or int32."""
        return preprocess(view, self.settings(compile_specs))

    def reference(self, blob: memoryview, compile_specs: Sequence[CompileSpec]) -> ReferenceExecutor:
        """See `Backend.reference`. The settings are not used."""
        return VulkanReferenceExecutor(read_blob(blob))

    def graph(self, blob: memoryview) -> BlobGraph:
        """See `Backend.graph`."""
        return blob_graph(read_blob(blob))


def _prepare(settings: Settings) -> Sequence[Pass]:
    return [allocate_state, recover_rms_norm, *precision_passes(settings)]


def _sign_activations(program: EdgeProgram) -> bool:
    return sign_activations(program, lambda each: each.target is DEQUANTIZE or is_shifted(each))


_FUSION: Final = (_sign_activations, fuse_layers, fuse_weights, fuse_rotary)
VULKAN: Final = VulkanBackend("vulkan", CODEC, TABLE, REWRITES, _prepare, _FUSION)
