# SPDX-License-Identifier: Apache-2.0
"""The backend: what the compiler asks of one, each answer in a file of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from torch._ops import OpOverload

from delegatec.delegation import (
    CompileSpec,
    OptionSpec,
    PartitionView,
    PreprocessResult,
    ReferenceExecutor,
    resolve_options,
)
from demo_backend.blob import read_blob
from demo_backend.partitioner import DemoPartitioner
from demo_backend.preprocess import preprocess
from demo_backend.reference import DemoExecutor


class DemoBackend:
    """See `delegatec.delegation.Backend`."""

    id: Final = "MappingDemoBackend"
    name: Final = "mapping_demo"
    options: Final[Mapping[str, OptionSpec]] = {
        "tan": OptionSpec(("split", "leave"), "split", "leave keeps each tangent on the portable kernels"),
    }

    def compile_specs(self, options: Mapping[str, Any]) -> list[CompileSpec]:
        """What of the options the program stores, and `partitioner` and `preprocess` get."""
        return [CompileSpec("tan", resolve_options(self.name, self.options, options)["tan"].encode())]

    def preserved_operators(self) -> frozenset[OpOverload]:
        """None: it takes convolution, relu and tan as the edge program has them."""
        return frozenset()

    def partitioner(self, compile_specs: Sequence[CompileSpec]) -> DemoPartitioner:
        """What it takes, and why not the rest."""
        return DemoPartitioner(compile_specs)

    def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
        """A portion to a blob and its debug map."""
        return preprocess(view)

    def reference(self, blob: memoryview, compile_specs: Sequence[CompileSpec]) -> ReferenceExecutor:
        """Runs a blob on the host, from the blob alone."""
        return DemoExecutor(read_blob(blob))

    def describe(self, blob: memoryview) -> str:
        """What `NAME.inspect -- --blobs` shows of a blob: an instruction a line."""
        return read_blob(blob).text()


BACKEND: Final = DemoBackend()
