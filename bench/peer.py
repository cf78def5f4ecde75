# SPDX-License-Identifier: Apache-2.0
"""The peer: from a `.pt2` to a `.pte`, as in its documentation."""

from __future__ import annotations

import json
import logging
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.passes import MemoryPlanningPass
from stopwatch import Stopwatch
from torch.export import ExportedProgram

NAME: Final = "peer"


def prepare() -> None:
    """Imports its backends, disables their logs, and makes them support constants of infinity and True.

    They write a graph as JSON for flatc, which supports neither Python's `Infinity` nor `true` for a float:
    without this, they fail on every model with masked attention.
    """
    import torchao.quantization  # noqa: F401 - registers operators that its Vulkan backend refers to
    from executorch.backends.apple.mps.serialization import mps_graph_serialize
    from executorch.backends.vulkan.serialization import vulkan_graph_serialize

    def dumps(*args: object, **kwargs: object) -> str:
        text = json.dumps(*args, **kwargs)  # type: ignore[arg-type]
        return text.replace("Infinity", "inf").replace('"fill_value": true', '"fill_value": 1.0')

    # They set the root logger to DEBUG and INFO, which costs time.
    logging.getLogger().setLevel(logging.WARNING)
    for serializer in (mps_graph_serialize, vulkan_graph_serialize):
        serializer.json = types.SimpleNamespace(dumps=dumps)


def version() -> str:
    """Returns name and version of the peer."""
    from importlib.metadata import version as of

    return f"executorch {of('executorch')}"


def read(path: Path) -> ExportedProgram:
    """Reads a `.pt2` with torch."""
    return torch.export.load(path)


def lower(exported: ExportedProgram, backend: str, path: Path, watch: Stopwatch, plan: bool = True) -> None:
    """Lowers a program and writes it.

    Args:
        exported: the program; it may be edited.
        backend: of `trial.BACKENDS`.
        path: the file to write.
        watch: records the CPU time of each stage.
        plan: whether inputs and outputs are copied to and from planned memory.
    """
    planning = MemoryPlanningPass(alloc_graph_input=plan, alloc_graph_output=plan)
    name, _, precision = backend.partition(" ")
    partitioner = [] if name == "portable" else _PARTITIONERS[name](precision, exported)
    with watch.stage("to_edge_transform_and_lower"):
        edge = to_edge_transform_and_lower(exported, partitioner=partitioner)
    with watch.stage("to_executorch"):
        program = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
    with watch.stage("write"), open(path, "wb") as file:
        program.write_to_file(file)


def _mps(precision: str, _: ExportedProgram) -> list[Any]:
    from executorch.backends.apple.mps.partition import MPSPartitioner
    from executorch.exir.backend.backend_details import CompileSpec

    return [MPSPartitioner([CompileSpec("use_fp16", bytes([precision == "fp16"]))])]


def _vulkan(precision: str, _: ExportedProgram) -> list[Any]:
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner

    return [VulkanPartitioner({"force_fp16": precision == "fp16"})]


def _xnnpack(_: str, exported: ExportedProgram) -> list[Any]:
    from executorch.backends.xnnpack.partition import xnnpack_partitioner as partitioners

    # Its guide to quantized language models: the one for dynamic quantization comes first.
    dynamic = any("choose_qparams" in str(node.target) for node in exported.graph.nodes)
    first = [partitioners.XnnpackDynamicallyQuantizedPartitioner()] if dynamic else []
    return [*first, partitioners.XnnpackPartitioner()]


# Backend -> precision, program -> the peer's partitioners, for backends that it has.
_PARTITIONERS: Final[dict[str, Callable[[str, ExportedProgram], list[Any]]]] = {
    "mps": _mps,
    "vulkan": _vulkan,
    "xnnpack": _xnnpack,
}
