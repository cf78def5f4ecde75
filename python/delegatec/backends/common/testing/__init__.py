# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of backends: modules are lowered, run from their blobs, and compared with eager mode."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.export.graph_signature import TensorArgument
from torch.utils import _pytree as pytree

from delegatec.backends import builtin_backends
from delegatec.delegation import DelegationReport, LoweredModule, to_backend
from delegatec.edge import EdgeProgram, to_edge
from delegatec.edge.builder import Builder
from delegatec.edge.interpret import interpret

aten = torch.ops.aten

Function = Callable[..., Any]
Build = Callable[[Builder, torch.fx.Node], torch.fx.Node]
"""Appends nodes that read a float32 tensor, and returns the last of them."""


class Call(torch.nn.Module):
    """A module that calls a function."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        """Calls it."""
        return self.function(*args)


def floats(*shape: int, seed: int = 0) -> torch.Tensor:
    """Returns float32 values in [-0.8, 0.8)."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * 1.6 - 0.8


def ints(*shape: int, high: int = 5, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """Returns integers in [0, high)."""
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(1)).to(dtype)


X: Final = floats(2, 3, 4)
Y: Final = floats(2, 3, 4, seed=1)
EDGES: Final = torch.tensor(
    [
        *(0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 1.0, -1.0, 3.0, -7.0, 0.001, -0.001, 100.25, -513.5),
        *(float("inf"), float("-inf"), float("nan")),
    ]
)
"""Special values: zeros, halves, infinities, NaN."""
PAIRS: Final = (EDGES.repeat_interleave(len(EDGES)), EDGES.repeat(len(EDGES)))
"""All pairs of them."""
IMAGE: Final = floats(2, 6, 7, 8)
BOOL: Final = torch.tensor([True, False, True])


@dataclass
class Compiled:
    """A module after `to_backend`.

    Attributes:
        program: the program with delegates.
        report: on the partitioning.
    """

    program: EdgeProgram
    report: DelegationReport

    @property
    def left(self) -> list[tuple[str, str, str]]:
        """Returns operator, rule and message of each node that is not delegated."""
        return [(r.operator, r.rule, r.message) for r in self.report.rejections]

    @property
    def delegates(self) -> list[LoweredModule]:
        """The delegates, in order."""
        return [delegate.module for delegate in self.report.delegates]

    def blobs(self) -> list[bytes]:
        """The delegates' blobs."""
        return [delegate.blob_bytes() for delegate in self.delegates]

    def __call__(self, *args: Any) -> list[torch.Tensor]:
        """Runs the program: delegates in their reference executors, the other nodes in eager mode.

        If an executor has `mismatches()`, which lists values of another dtype or shape than the blob
        declares, it must be empty.
        """
        results = interpret(self.program, pytree.tree_leaves(args))
        for delegate in self.delegates:
            if delegate._executor is None:
                assert self.program.bodies  # A branch that did not run.
                continue
            mismatches = getattr(delegate._executor.found, "mismatches", list)
            assert mismatches() == []
        return results


def compile_program(backend: str, program: EdgeProgram, **options: str) -> Compiled:
    """Lowers a program for a built-in backend, in place."""
    registry = builtin_backends()
    chosen = registry.resolve(backend)
    specs = chosen.compile_specs(options)
    return Compiled(*to_backend(program, chosen.partitioner(specs), registry=registry))


def compile_module(
    backend: str,
    module: torch.nn.Module,
    args: tuple[Any, ...],
    preserve: Collection[OpOverload] = (),
    dynamic_shapes: Any = None,
    **options: str,
) -> Compiled:
    """Exports a module with example inputs and lowers it for a built-in backend."""
    exported = torch.export.export(module.eval(), args, dynamic_shapes=dynamic_shapes)
    return compile_program(backend, to_edge(exported, preserve=preserve), **options)


def eager(module: torch.nn.Module, args: tuple[Any, ...]) -> Iterator[torch.Tensor]:
    """Yields the outputs of the module in eager mode, flattened."""
    with torch.no_grad():
        yield from pytree.tree_leaves(module(*args))


def check_results(
    results: Iterable[torch.Tensor],
    wanted: Iterable[torch.Tensor],
    dtypes: Iterable[torch.dtype],
    rtol: float,
    atol: float,
) -> None:
    """Checks dtypes, shapes and values; the expected results may have other dtypes."""
    for result, value, dtype in zip(results, wanted, dtypes, strict=True):
        assert result.dtype == dtype, f"{result.dtype} is not {dtype}"
        assert result.shape == value.shape, f"{result.shape} is not {value.shape}"
        torch.testing.assert_close(result, value.to(dtype), rtol=rtol, atol=atol, equal_nan=True)


def program_of(build: Build) -> tuple[EdgeProgram, torch.Tensor]:
    """Builds a program of nodes that passes over the edge program would fold or rewrite.

    Returns:
        The program, which returns X plus one plus the mean of the nodes' result; and its output.
    """
    program = to_edge(torch.export.export(Call(lambda x: x + 1.0), (X,)))
    output = program.output_node()
    (work,) = output.all_input_nodes
    builder = Builder(program).at(output)
    extra = builder.call(aten._to_copy.default, build(builder, work), dtype=torch.float32)
    if extra.meta["val"].dim():
        extra = builder.call(aten.mean.default, extra)
    node = builder.call(aten.add.Tensor, work, extra)
    output.args = ((node,),)
    program.output_specs[0] = replace(program.output_specs[0], arg=TensorArgument(node.name))
    (wanted,) = torch.fx.Interpreter(program.graph_module).run(X)
    return program, wanted
