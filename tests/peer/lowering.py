# SPDX-License-Identifier: Apache-2.0
"""A module lowered by the peer: its delegates' blobs, and the whole program to run."""

from __future__ import annotations

import copy
import logging
import operator
import warnings
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from delegatec.backends.mps.blob import read_blob
from delegatec.backends.mps.reference.executor import MpsReferenceExecutor
from delegatec.backends.mps.reference.unspecified import DEFAULT, Unspecified
from delegatec.delegation.delegates.call_delegate import call_delegate

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from executorch.backends.apple.mps.operators.node_visitor import NodeVisitor, get_node_visitors
    from executorch.backends.apple.mps.partition import MPSPartitioner
    from executorch.exir import EdgeCompileConfig, EdgeProgramManager, to_edge
    from executorch.exir.backend.backend_details import CompileSpec
    from executorch.exir.delegate import executorch_call_delegate

# The peer turns on debug output of everything when it is imported, and prints 340 kB for a small model.
logging.getLogger().setLevel(logging.WARNING)

# Operators with a visitor in the peer, by their names there.
REGISTRY: Final = frozenset(get_node_visitors(None)) - {"placeholder", "output"}

_CONSTANT_KINDS: Final = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def runner(data: bytes, unspecified: Unspecified = DEFAULT) -> Callable[..., list[torch.Tensor]]:
    """Runs a blob by the reference executor."""
    executor = MpsReferenceExecutor(read_blob(memoryview(data)), unspecified)
    return lambda *inputs: executor(inputs)


def peer_edge(exported: ExportedProgram) -> EdgeProgramManager:
    """The peer's edge program, as in its MPS tests; it can be lowered repeatedly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False))


class PeerProgram:
    """The peer's result for an edge program.

    Args:
        edge: of `peer_edge`.
        fp16: its setting `use_fp16`.
        forget: empties its table of value ids first. That is an attribute of a class and outlives a program;
            without this, blobs depend on what was lowered before. Within one program, the peer is left as it
            is: a scalar's id in one partition holds for the next.

    Attributes:
        blobs: of its delegates.
        left: names of the operators that it does not delegate.
    """

    def __init__(self, edge: EdgeProgramManager, *, fp16: bool = False, forget: bool = True) -> None:
        if forget:
            NodeVisitor._tensor_to_id.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # It removes constants from the given program.
            lowered = copy.deepcopy(edge).to_backend(MPSPartitioner([CompileSpec("use_fp16", bytes([fp16]))]))
        self._program = lowered.exported_program()
        modules = self._program.graph_module.named_modules()
        self.blobs = [bytes(m.processed_bytes) for _, m in modules if hasattr(m, "processed_bytes")]
        calls = [node.target for node in self._program.graph.nodes if node.op == "call_function"]
        kept = (executorch_call_delegate, operator.getitem)
        self.left = [target.__name__ for target in calls if target not in kept]

    def __call__(self, *args: Any, unspecified: Unspecified = DEFAULT) -> list[Any]:
        """Runs the program: delegates from their blobs, other operators by ATen.

        Args:
            *args: of the model.
            unspecified: choices for unspecified behavior of MPSGraph.
        """
        signature = self._program.graph_signature
        inputs = iter(pytree.tree_leaves(args))
        values = [
            self._constant(str(spec.target)) if spec.kind in _CONSTANT_KINDS else next(inputs)
            for spec in signature.input_specs
        ]
        results = BlobInterpreter(self._program.graph_module, unspecified).run(*values)
        kinds = [spec.kind for spec in signature.output_specs]
        return [r for r, kind in zip(results, kinds, strict=True) if kind is OutputKind.USER_OUTPUT]

    def _constant(self, name: str) -> torch.Tensor:
        program = self._program
        value = program.state_dict.get(name, program.constants.get(name))
        assert isinstance(value, torch.Tensor), name
        return value


class BlobInterpreter(torch.fx.Interpreter):
    """Runs a program of the peer or ours: delegates from their blobs alone, the rest by ATen.

    Args:
        module: the graph.
        unspecified: choices for unspecified behavior of MPSGraph.
    """

    def __init__(self, module: torch.fx.GraphModule, unspecified: Unspecified) -> None:
        super().__init__(module)
        self._unspecified = unspecified

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """See `torch.fx.Interpreter`."""
        if target not in (executorch_call_delegate, call_delegate):
            return super().call_function(target, args, kwargs)
        lowered, *inputs = args
        data = lowered.processed_bytes if target is executorch_call_delegate else lowered.blob_bytes()
        return runner(bytes(data), self._unspecified)(*inputs)
