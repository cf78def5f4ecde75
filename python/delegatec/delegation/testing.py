# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests: a model, a backend that runs nodes in eager mode, computed bytes, a count of lines."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import Any

import torch
from torch.fx import Node

from delegatec.delegation import (
    Backend,
    CompileSpec,
    ComputedBytes,
    DelegationSpec,
    Partitioner,
    Partitioning,
    PartitionView,
    PreprocessResult,
    ReferenceExecutor,
    Rejection,
    call_delegate,
)
from delegatec.delegation.delegates.extract import extract_view
from delegatec.delegation.grouping import convex_groups
from delegatec.edge import EdgeProgram, to_edge
from delegatec.edge.interpret import interpret

SPECS = (CompileSpec("level", b"\x01"),)


class Net(torch.nn.Module):
    """A linear layer, elementwise functions, a reduction, and a buffer that it writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.scale = torch.nn.Parameter(torch.full((4,), 3.0))
        self.total: torch.Tensor
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        h = self.first(x).relu()
        s = torch.sin(h) * self.scale
        self.total.add_(s.sum(0))
        return {"a": torch.cos(s) + y, "b": h.max(), "c": h}


NET_ARGS = (torch.randn(2, 4), torch.randn(4))
"""Inputs of `Net`."""


def edge(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> EdgeProgram:
    """Returns the edge program of a module for example inputs."""
    return to_edge(torch.export.export(module.eval(), args))


class SupportsAllBut(Partitioner):
    """Supports every operator that is not in `left`; some of control flow, `control_flow`, with bodies."""

    def __init__(
        self, *left: Any, backend_id: str = "EagerBackend", control_flow: Collection[Any] = ()
    ) -> None:
        self.left = left
        self.backend_id = backend_id
        self._control_flow = control_flow

    @property
    def control_flow(self) -> Collection[Any]:
        return self._control_flow

    def partition(self, program: EdgeProgram) -> Partitioning:
        nodes = [node for node in program.graph.nodes if node.op == "call_function"]
        index = {node: i for i, node in enumerate(nodes)}
        outside = (*self.left, call_delegate)
        chosen = [n.target not in outside and not _of(n, outside) for n in nodes]
        groups = convex_groups([[index[s] for s in n.all_input_nodes if s in index] for n in nodes], chosen)
        rejections = [Rejection(n, "left", "it was left", "do not") for n in nodes if n.target in self.left]
        spec = DelegationSpec(self.backend_id, SPECS)
        return Partitioning(spec, [[nodes[i] for i in group] for group in groups], rejections)


def _of(node: Node, targets: Sequence[Any]) -> bool:
    return node.target is operator.getitem and node.all_input_nodes[0].target in targets


class EagerBackend(Backend):
    """A backend whose delegates run ATen: a blob is a key of a table of programs."""

    name = "eager"

    def __init__(self, id: str = "EagerBackend") -> None:
        self.id = id
        self.views: list[PartitionView] = []
        self._programs: list[Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]] = []

    def compile_specs(self, options: Mapping[str, Any]) -> list[CompileSpec]:
        return list(SPECS)

    def partitioner(self, compile_specs: Sequence[CompileSpec]) -> Partitioner:
        return SupportsAllBut()

    def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
        assert tuple(compile_specs) == SPECS
        calls = [(node, node.target, node.args, node.kwargs) for node in view.nodes]

        def run(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
            values: dict[Node, Any] = dict(zip(view.inputs, inputs, strict=True))
            values.update(view.constants)
            for node, target, args, kwargs in calls:
                assert callable(target)
                real = torch.fx.node.map_arg((args, kwargs), lambda n: values[n])
                values[node] = target(*real[0], **real[1])
            return [values[node] for node in view.outputs]

        self.views.append(view)
        extracted = extract_view(view, view.program.specs_by_name()) if view.bodies else None
        self._programs.append(run if extracted is None else partial(interpret, extracted))
        handle = min(node.meta["debug_handle"] for node in view.nodes)
        return PreprocessResult([bytes([len(self._programs) - 1])], {0: (handle,)})

    def reference(self, blob: memoryview, compile_specs: Sequence[CompileSpec]) -> ReferenceExecutor:
        return _Executor(self._programs[blob[0]])


class _Executor(ReferenceExecutor):
    def __init__(self, run: Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]) -> None:
        self._run = run

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return self._run(inputs)


class Counting(ComputedBytes):
    """The integers from `first` on, modulo 251, as bytes.

    Attributes:
        largest_request: the largest requested number of bytes.
    """

    def __init__(self, size: int, first: int = 0) -> None:
        self._size, self._first = size, first
        self.largest_request = 0

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, span: slice, /) -> bytes:
        start, end, _ = span.indices(self._size)
        self.largest_request = max(self.largest_request, end - start)
        first = (self._first + start) % 251
        return (bytes(range(251)) * ((first + end - start) // 251 + 1))[first : first + end - start]


def lines_run(work: Callable[[], object]) -> int:
    """Returns the number of Python lines that `work` runs, including libraries: the same on every machine."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
