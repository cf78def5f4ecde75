# SPDX-License-Identifier: Apache-2.0
"""Modules lowered by the peer for Vulkan: its delegates run by our reference executor, the rest by ATen."""

from __future__ import annotations

import importlib
import logging
import operator
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from typing import Any, Final

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from delegatec.backends.vulkan.blob import read_blob
from delegatec.backends.vulkan.reference.executor import VulkanReferenceExecutor
from delegatec.backends.vulkan.reference.unspecified import Unspecified


@contextmanager
def quiet() -> Iterator[None]:
    """Restores what importing and running the peer changes: it logs from INFO on, and prints."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        root.setLevel(max(level, logging.WARNING))
        root.handlers[:] = handlers


with quiet():
    # The peer refers to torchao's operators without importing it.
    importlib.import_module("torchao.quantization")
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
    from executorch.exir.delegate import executorch_call_delegate

# The behavior of the runtime on most drivers: the peer's blobs rely on it.
USUAL: Final = Unspecified(barriers="ignored", texels="zero")
_CONSTANTS: Final = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


class PeerProgram:
    """The peer's result for an exported program.

    Args:
        exported: the program.
        options: of its partitioner.

    Attributes:
        blobs: of its delegates.
        left: names of the operators that it does not delegate.
    """

    def __init__(self, exported: ExportedProgram, options: Mapping[str, Any] | None = None) -> None:
        with quiet():
            config = EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=False)
            lowered = to_edge_transform_and_lower(
                exported, compile_config=config, partitioner=[VulkanPartitioner(dict(options or {}))]
            )
        self._program = lowered.exported_program()
        delegates = [
            each for each in self._program.graph_module.modules() if hasattr(each, "processed_bytes")
        ]
        self.blobs = [bytes(each.processed_bytes) for each in delegates]
        self._named: dict[str, memoryview] = {}
        for each in delegates:
            store = each.named_data_store_output
            for key, entry in (store.pte_data if store is not None else {}).items():
                self._named[key] = memoryview(bytes(store.buffers[entry.buffer_index]))
        calls = [node.target for node in self._program.graph.nodes if node.op == "call_function"]
        kept = (executorch_call_delegate, operator.getitem)
        self.left = [str(target) for target in calls if target not in kept]

    def __call__(self, *args: Any) -> list[Any]:
        """Runs the program for the inputs of the model."""
        signature = self._program.graph_signature
        inputs = iter(pytree.tree_leaves(args))
        values = [
            self._constant(str(spec.target)) if spec.kind in _CONSTANTS else next(inputs)
            for spec in signature.input_specs
        ]
        results = _Interpreter(self._program.graph_module, self._named).run(*values)
        kinds = [spec.kind for spec in signature.output_specs]
        return [r for r, kind in zip(results, kinds, strict=True) if kind is OutputKind.USER_OUTPUT]

    def _constant(self, name: str) -> torch.Tensor:
        program = self._program
        value = program.state_dict.get(name, program.constants.get(name))
        assert isinstance(value, torch.Tensor), name
        return value


class _Interpreter(torch.fx.Interpreter):
    def __init__(self, module: torch.fx.GraphModule, named: Mapping[str, memoryview]) -> None:
        super().__init__(module)
        self._named = named

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if n.target is executorch_call_delegate:
            # The runtime converts results to the dtypes of the program.
            result = tuple(r.to(v.dtype) for r, v in zip(result, n.meta["val"], strict=True))
        return result

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """See `torch.fx.Interpreter`."""
        if target is not executorch_call_delegate:
            return super().call_function(target, args, kwargs)
        lowered, *inputs = args
        executor = VulkanReferenceExecutor(read_blob(memoryview(lowered.processed_bytes)), USUAL)
        executor.load_named_data(self._named)
        return executor(inputs)
