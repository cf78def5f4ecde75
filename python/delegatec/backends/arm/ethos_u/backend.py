# SPDX-License-Identifier: Apache-2.0
"""The Ethos-U backend as a `Backend`: TOSA graphs that Vela compiles to command streams of the NPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from delegatec.backends.arm.backend import ArmBackend
from delegatec.backends.arm.blob import read_blob, write_blob
from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.capabilities.families import unfused
from delegatec.backends.arm.ethos_u.container import read_container, write_container
from delegatec.backends.arm.ethos_u.description import describe
from delegatec.backends.arm.ethos_u.settings import CODEC, EthosUSettings, Stage
from delegatec.backends.arm.ethos_u.transposed_inputs import transposed_inputs
from delegatec.backends.arm.ethos_u.vela import compile_graph
from delegatec.backends.arm.graph import blob_graph
from delegatec.backends.arm.operators.rewrites import REWRITES
from delegatec.backends.arm.operators.table import TABLE
from delegatec.backends.arm.preprocess import lowered
from delegatec.backends.arm.reference import TosaReferenceExecutor
from delegatec.delegation import (
    CompileSpec,
    DelegateMappingBuilder,
    DelegateMemory,
    PartitionView,
    PreprocessResult,
    ReferenceExecutor,
    format_blob_graph,
)
from delegatec.diagnostics import DelegatecError, Diagnostic

_TOSA: Final = b"TOSA"


class EthosUBackend(ArmBackend):
    """Compiles partitions to command streams, or keeps their TOSA graphs, which run on the host."""

    def compile_specs(self, options: Mapping[str, Any]) -> list[CompileSpec]:
        """See `Backend.compile_specs`. Raises DC402 also for options that do not fit each other."""
        specs = super().compile_specs(options)
        self.settings(specs)
        return specs

    def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
        """See `Backend.preprocess`. Raises DC430 and DC431 if Vela is not installed, or fails."""
        settings = self.settings(compile_specs)
        assert isinstance(settings, EthosUSettings)
        builder = lowered(view, settings)
        for part in builder.walk():
            problem = unfused(settings.accelerator.family, part.operations, part.outputs)
            if problem is not None:
                raise DelegatecError([Diagnostic("DC408", problem, help="quantize its results alike")])
        if settings.stage is Stage.TOSA:
            return PreprocessResult(write_blob(builder), _handles(builder, _names(builder)))
        compiled, estimates = compile_graph(write_blob(builder), settings)
        handles = _handles(builder, [layer.name for layer in estimates.layers])
        container = write_container(compiled)
        read_container(memoryview(container))
        notes = list(transposed_inputs(builder, estimates))
        return PreprocessResult([container], handles, estimates=estimates, notes=notes)

    def reference(self, blob: memoryview, compile_specs: Sequence[CompileSpec]) -> ReferenceExecutor:
        """See `Backend.reference`. Raises DC501 for a command stream, which needs an NPU."""
        if bytes(blob[4:8]) == _TOSA:
            return TosaReferenceExecutor(read_blob(blob))
        read_container(blob)
        message = "a command stream of Ethos-U runs on the NPU only"
        help = "lower the program with the option stage=tosa to run its delegates on this host"
        raise DelegatecError([Diagnostic("DC501", message, help=help)])

    def memory(self, blob: memoryview) -> DelegateMemory:
        """See `Backend.memory`. A run takes memory for all values, with inputs and outputs."""
        if bytes(blob[4:8]) == _TOSA:
            return DelegateMemory()
        return DelegateMemory(temporary=read_container(blob).scratch)

    def describe(self, blob: memoryview) -> str:
        """See `Backend.describe`."""
        if bytes(blob[4:8]) == _TOSA:
            return format_blob_graph(blob_graph(read_blob(blob)))
        return describe(read_container(blob))


def _names(builder: GraphBuilder) -> list[str]:
    return [operation.outputs[0].name for part in builder.walk() for operation in part.operations]


def _handles(builder: GraphBuilder, names: Sequence[str]) -> dict[int | str, tuple[int, ...]]:
    """Returns the debug map of operations that Vela names like their results."""
    nodes = {
        operation.outputs[0].name: origins
        for part in builder.walk()
        for operation, origins in zip(part.operations, part.origins, strict=True)
    }
    mapping = DelegateMappingBuilder()
    for name in dict.fromkeys(names):
        origins = [node for node in nodes.get(name, ()) if "debug_handle" in node.meta]
        if origins:
            mapping.insert_delegate_mapping_entry(nodes=origins, identifier=name)
    return mapping.get_delegate_mapping()


ETHOS_U: Final = EthosUBackend("ethos_u", CODEC, TABLE, REWRITES)
