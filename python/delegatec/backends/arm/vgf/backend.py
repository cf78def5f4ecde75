# SPDX-License-Identifier: Apache-2.0
"""The VGF backend as a `Backend`: its blobs are VGF files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

from delegatec.backends.arm.backend import ArmBackend
from delegatec.backends.arm.blob import write_blob
from delegatec.backends.arm.building.operation import REGIONS, Operation
from delegatec.backends.arm.graph import blob_graph
from delegatec.backends.arm.operators.rewrites import REWRITES
from delegatec.backends.arm.operators.table import TABLE
from delegatec.backends.arm.preprocess import lowered
from delegatec.backends.arm.reference import TosaReferenceExecutor
from delegatec.backends.arm.settings import Settings
from delegatec.backends.arm.specification import TosaSpecification
from delegatec.backends.arm.target import TosaTarget
from delegatec.backends.arm.vgf.converter import to_vgf
from delegatec.backends.arm.vgf.reader import read_graph
from delegatec.backends.common.settings import Setting, SettingsCodec
from delegatec.delegation import BlobGraph, CompileSpec, PartitionView, PreprocessResult, ReferenceExecutor

_SPECIFICATION: Final = TosaSpecification.parse("TOSA-1.0+INT+FP+int16")
CODEC: Final = SettingsCodec(
    "VgfBackend",
    Settings(_SPECIFICATION),
    {
        "specification": Setting(
            "the TOSA operators that the device supports: TOSA-1.0 with its profiles and extensions",
            key="tosa_spec",
            parse=TosaSpecification.parse,
        ),
    },
)


class VgfReferenceExecutor(TosaReferenceExecutor):
    """Runs the graph of a VGF file, in which 0-d tensors have the shape [1]."""

    lacks_scalars = True

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the graph."""
        return super().__call__([value if value.dim() else value.reshape(1) for value in inputs])


class VgfTarget(TosaTarget):
    """The operators that Arm's model converter converts."""

    control_flow = ()

    def _problem(self, operation: Operation) -> str | None:
        if operation.name in REGIONS:
            return f"{operation.name}: the model converter has no control flow"
        return super()._problem(operation)


class VgfBackend(ArmBackend):
    """Compiles partitions to VGF."""

    target_type = VgfTarget

    blob_suffix = ".vgf"

    def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
        """See `Backend.preprocess`.

        Raises DC406 for each constant that TOSA cannot represent, DC430 without the converter, DC431 if it
        rejects the graph, and DC407 if its file cannot be read.
        """
        builder = lowered(view, self.settings(compile_specs))
        file = to_vgf(write_blob(builder))
        read_graph(memoryview(file))
        return PreprocessResult([file])

    def reference(self, blob: memoryview, compile_specs: Sequence[CompileSpec]) -> ReferenceExecutor:
        """See `Backend.reference`. The settings are not used."""
        return VgfReferenceExecutor(read_graph(blob))

    def graph(self, blob: memoryview) -> BlobGraph:
        """See `Backend.graph`."""
        return blob_graph(read_graph(blob))


VGF: Final = VgfBackend("vgf", CODEC, TABLE, REWRITES)
