# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests: lower a module for the Vulkan delegate, and run it in the reference executor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

import torch
from delegatec_schemas import vulkan_graph as schema

from delegatec.backends.common import testing
from delegatec.backends.common.record import Record
from delegatec.backends.common.testing import Call, Compiled, Function, check_results, eager
from delegatec.backends.common.testing.recording import recorded
from delegatec.backends.vulkan import preprocess
from delegatec.backends.vulkan.backend import VULKAN
from delegatec.backends.vulkan.blob import read_blob
from delegatec.backends.vulkan.building.graph_builder import GraphBuilder
from delegatec.backends.vulkan.memory.sharing import share_memory
from delegatec.backends.vulkan.operators.rewrites import REWRITES
from delegatec.backends.vulkan.operators.table import TABLE

_TOLERANCE: Final = {"fp32": (2e-5, 2e-6), "fp16": (1e-2, 2e-3)}


def compile_module(
    module: torch.nn.Module, args: tuple[Any, ...], dynamic_shapes: Any = None, **options: str
) -> Compiled:
    """Exports a module for example inputs and lowers it for the delegate."""
    preserved = VULKAN.preserved_operators()
    return testing.compile_module("vulkan", module, args, preserved, dynamic_shapes, **options)


def graph_of(compiled: Compiled) -> schema.GraphT:
    """Returns the graph of the only delegate."""
    (blob,) = compiled.blobs()
    return read_blob(memoryview(blob)).graph


def calls(compiled: Compiled) -> list[str]:
    """Returns the operators that the only delegate calls, in order, by `name_of`."""
    return [name_of(call) for call in graph_of(compiled).chain]


def name_of(call: schema.OperatorCallT) -> str:
    """Returns the operator of a call, without namespace and default overload."""
    name = call.name.decode() if isinstance(call.name, bytes) else call.name
    return str(name).partition(".")[2].removesuffix(".default")


def run_case(
    function: Function | torch.nn.Module,
    args: tuple[torch.Tensor, ...],
    expected: str = "",
    **options: str,
) -> Compiled:
    """Checks that a function becomes one delegate with the results of eager mode.

    Args:
        function: of tensors; returns a tensor or several.
        args: example inputs, also for the run; with fp16 they are rounded to float16.
        expected: the operators that the blob calls, in order, see `calls`; not checked if empty.
        **options: of the backend.

    Returns:
        The compiled program, for further checks.
    """
    module = function if isinstance(function, torch.nn.Module) else Call(function)
    if options.get("precision") == "fp16":
        # The delegate converts its inputs: a rounded operand of `floor` or `==` is not an error of these.
        args = tuple(x.half().float() if x.dtype == torch.float32 else x for x in args)
    compiled = compile_module(module, args, **options)
    assert (len(compiled.delegates), compiled.left) == (1, [])
    assert calls(compiled) == expected.split() or not expected
    relative, absolute = _TOLERANCE[options.get("precision", "fp32")]
    wanted = list(eager(module, args))
    check_results(compiled(*args), wanted, [value.dtype for value in wanted], relative, absolute)
    return compiled


def run_sizes(
    function: Function | torch.nn.Module,
    sizes: Sequence[Mapping[int, torch.export.Dim]],
    batches: Sequence[tuple[torch.Tensor, ...]],
    **options: str,
) -> Compiled:
    """Checks that a function becomes one delegate, which has the results of eager mode for several sizes.

    Args:
        function: of tensors; returns a tensor or several.
        sizes: for each operand, the dimensions that vary.
        batches: example inputs for one run each, of one loaded delegate; those of the first are exported.
        **options: of the backend.

    Returns:
        The compiled program, for further checks.
    """
    is_module = isinstance(function, torch.nn.Module)
    module = function if isinstance(function, torch.nn.Module) else Call(function)
    shapes = tuple(map(dict, sizes))
    compiled = compile_module(module, batches[0], shapes if is_module else (shapes,), **options)
    assert (len(compiled.delegates), compiled.left) == (1, [])
    relative, absolute = _TOLERANCE[options.get("precision", "fp32")]
    for args in batches:
        wanted = list(eager(module, args))
        check_results(compiled(*args), wanted, [value.dtype for value in wanted], relative, absolute)
    return compiled


@contextmanager
def recorded_lowerings() -> Iterator[Record]:
    """Records the operators that each row emits, and the rewrites that are applied."""
    built = share_memory
    with recorded(TABLE, REWRITES) as record:
        builders: list[GraphBuilder] = []
        create = GraphBuilder.__init__

        def created(builder: GraphBuilder, *args: Any) -> None:
            builders.append(builder)
            create(builder, *args)

        def finished(graph: schema.GraphT) -> None:
            builder = builders.pop()
            for call, origin in zip(graph.chain, builder.origins, strict=True):
                for node in origin:
                    record.rows[str(node.target)].add(call.name)
            built(graph)

        with (
            patch.object(GraphBuilder, "__init__", created),
            patch.object(preprocess, "share_memory", finished),
        ):
            yield record
