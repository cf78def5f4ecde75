# SPDX-License-Identifier: Apache-2.0
"""Programs as the peer's compiler writes them."""

from __future__ import annotations

import functools

from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from torch.export import ExportedProgram

from tests.oracle.models import MODELS

_CONFIGS = {
    "state": ExecutorchBackendConfig(passes=[InitializedMutableBufferPass(["total"])]),
    # Inputs and outputs without planned memory, and segments that follow each other closely.
    "many_outputs": ExecutorchBackendConfig(
        memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False),
        segment_alignment=16,
    ),
}


@functools.cache
def compiled(name: str) -> tuple[ExportedProgram, bytes]:
    """A model of `MODELS`, exported, and the peer's program for it."""
    exported = MODELS[name]()
    program = to_edge_transform_and_lower(exported).to_executorch(_CONFIGS.get(name))
    return exported, bytes(program.buffer)


@functools.cache
def two_methods() -> bytes:
    """The peer's program of two methods, "forward" and "encode", which share a file."""
    methods = {"forward": MODELS["convolutional"](), "encode": MODELS["encoder"]()}
    return bytes(to_edge_transform_and_lower(methods).to_executorch().buffer)
