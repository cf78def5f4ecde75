# SPDX-License-Identifier: Apache-2.0
"""A plug-in backend that supports relu; its blob is the number of times to apply it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

from delegatec.delegation import (
    Backend,
    CompileSpec,
    DelegateMappingBuilder,
    DelegationSpec,
    OptionSpec,
    Partitioner,
    Partitioning,
    PartitionView,
    PreprocessResult,
    ReferenceExecutor,
    Rejection,
    resolve_options,
)
from delegatec.edge import EdgeProgram

RELU: Final = torch.ops.aten.relu.default


class ClampPartitioner(Partitioner):
    """Takes each rectifier by itself."""

    def __init__(self, compile_specs: Sequence[CompileSpec]) -> None:
        self._delegation = DelegationSpec(ClampBackend.id, tuple(compile_specs))

    def partition(self, program: EdgeProgram) -> Partitioning:
        """See `delegatec.delegation.Partitioner`."""
        nodes = [node for node in program.graph.nodes if node.op == "call_function"]
        return Partitioning(
            self._delegation,
            groups=[[node] for node in nodes if node.target is RELU],
            rejections=[Rejection(node, "operator", "not relu") for node in nodes if node.target is not RELU],
        )


class ClampBackend(Backend):
    """Compiles rectifiers."""

    id = "ClampBackend"
    name = "clamp"
    options: Mapping[str, OptionSpec] = {
        "times": OptionSpec(
            ("1", "2"), "1", "How often the rectifier is applied; more than once is as good."
        ),
        "system": OptionSpec((), "any", "Name of the system's configuration."),
        "flags": OptionSpec((), (), "Further options for the device."),
    }

    def compile_specs(self, options: Mapping[str, Any]) -> list[CompileSpec]:
        """Each option; flags are separated by spaces."""
        resolved = resolve_options(self.name, self.options, options)
        resolved["flags"] = " ".join(resolved["flags"])
        return [CompileSpec(name, resolved[name].encode()) for name in self.options]

    def partitioner(self, compile_specs: Sequence[CompileSpec]) -> ClampPartitioner:
        """The partitioner."""
        return ClampPartitioner(compile_specs)

    def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
        """The blob is `CLMP` and the number of times. The runtime reports its one instruction as "clamp"."""
        debug_map = DelegateMappingBuilder()
        debug_map.insert_delegate_mapping_entry(nodes=view.nodes, identifier="clamp")
        blob = [b"CLMP", compile_specs[0].value]
        return PreprocessResult(blob, debug_map.get_delegate_mapping())

    def describe(self, blob: memoryview) -> str:
        """What `inspect` shows of a blob."""
        return f"clamp, {str(blob[4:], 'ascii')} times"

    def reference(self, blob: memoryview, compile_specs: Sequence[CompileSpec]) -> ReferenceExecutor:
        """Runs the blob."""
        if bytes(blob[:4]) != b"CLMP":
            raise ValueError("not a blob of the clamp backend")
        return ClampExecutor(int(bytes(blob[4:])))


class ClampExecutor(ReferenceExecutor):
    """Runs one blob."""

    def __init__(self, times: int) -> None:
        self._times = times

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Applies the rectifier."""
        (value,) = inputs
        for _ in range(self._times):
            value = value.clamp(min=0)
        return [value]


BACKEND: Final = ClampBackend()
