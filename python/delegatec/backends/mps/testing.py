# SPDX-License-Identifier: Apache-2.0
"""Helpers of tests: a module lowered for the MPS delegate, and run through its reference executor."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from delegatec.backends import builtin_backends
from delegatec.backends.mps.blob import Blob, read_blob
from delegatec.backends.mps.operands import OPERATION_NAMES
from delegatec.backends.mps.reference.executor import MpsReferenceExecutor
from delegatec.delegation import DelegationReport, LoweredModule, to_backend
from delegatec.edge import EdgeProgram, to_edge


@dataclass
class Compiled:
    """A module after `to_backend`.

    Attributes:
        program: the owner.
        report: what became of its nodes.
    """

    program: EdgeProgram
    report: DelegationReport

    @property
    def delegates(self) -> list[LoweredModule]:
        """The delegates, in order."""
        return [delegate.module for delegate in self.report.delegates]

    def blobs(self) -> list[bytes]:
        """The delegates' blobs."""
        return [delegate.blob_bytes() for delegate in self.delegates]

    def __call__(self, *args: Any) -> list[torch.Tensor]:
        """Runs the program: delegates by their reference executor, what was left by ATen in eager.

        Every value of every blob is checked to be of the dtype and the shape that the blob declares.
        """
        for blob in self.blobs():
            assert MpsReferenceExecutor(read_blob(memoryview(blob))).mismatches() == []
        inputs = iter(pytree.tree_leaves(args))
        values = [
            self.program.constants[node.name] if node.name in self.program.constants else next(inputs)
            for node in self.program.placeholders()
        ]
        return list(torch.fx.Interpreter(self.program.graph_module).run(*values))


def compile_program(program: EdgeProgram, precision: str = "fp32", **options: str) -> Compiled:
    """Lowers what the delegate takes of a program, in place; `options` are the backend's others."""
    registry = builtin_backends()
    backend = registry.resolve("mps")
    specs = backend.compile_specs({"precision": precision, **options})
    return Compiled(*to_backend(program, backend.partitioner(specs), registry=registry))


def compile_module(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    precision: str = "fp32",
    preserve: Collection[OpOverload] = (),
    **options: str,
) -> Compiled:
    """Exports a module for example inputs and lowers what the delegate takes."""
    exported = torch.export.export(module.eval(), args)
    return compile_program(to_edge(exported, preserve=preserve), precision, **options)


def operations(blob: Blob | bytes) -> list[str]:
    """Names of a blob's operations, in order."""
    graph = (blob if isinstance(blob, Blob) else read_blob(memoryview(blob))).graph
    return [OPERATION_NAMES[node.mpsnodeUnionType] for node in graph.mpsNodes]


def eager(module: torch.nn.Module, args: tuple[Any, ...]) -> Iterator[torch.Tensor]:
    """Outputs of the module itself, flat."""
    with torch.no_grad():
        yield from pytree.tree_leaves(module(*args))
