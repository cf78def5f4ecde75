# SPDX-License-Identifier: Apache-2.0
"""The backend object; each part is implemented in its own file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from delegatec.delegation import (
    Backend,
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


class DemoBackend(Backend):
    """A backend for the demo's device."""

    id = "MappingDemoBackend"
    name = "mapping_demo"
    options: Mapping[str, OptionSpec] = {
        "tan": OptionSpec(("split", "leave"), "split", "leave keeps every tan on the portable kernels"),
    }

    def compile_specs(self, options: Mapping[str, Any]) -> list[CompileSpec]:
        """Returns the options that the program stores, and that `partitioner` and `preprocess` receive."""
        return [CompileSpec("tan", resolve_options(self.name, self.options, options)["tan"].encode())]

    def partitioner(self, compile_specs: Sequence[CompileSpec]) -> DemoPartitioner:
        """Returns the partitioner, which selects the supported nodes."""
        return DemoPartitioner(compile_specs)

    def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
        """Compiles a partition to a blob and its debug map."""
        return preprocess(view)

    def reference(self, blob: memoryview, compile_specs: Sequence[CompileSpec]) -> ReferenceExecutor:
        """Returns an executor that runs a blob on the host, from the blob alone."""
        return DemoExecutor(read_blob(blob))

    def describe(self, blob: memoryview) -> str:
        """Returns the text of a blob for `NAME.inspect -- --blobs`: one instruction per line."""
        return read_blob(blob).text()


BACKEND: Final = DemoBackend()
