# SPDX-License-Identifier: Apache-2.0
"""The reference executor: runs the chains of a blob in order."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import torch
from delegatec_schemas import mlx_graph as schema

from delegatec.backends.mlx.checks import count_of, text
from delegatec.backends.mlx.operands import NODE_NAMES
from delegatec.backends.mlx.reference import (
    attention,
    elementwise,
    indexing,
    integers,
    layers,
    moves,
    quantized,
    reductions,
)
from delegatec.backends.mlx.reference.run import MAX_ELEMENTS, Run, Semantics, check_size, dtype_of, reject
from delegatec.backends.mlx.reference.unspecified import DEFAULT, Unspecified
from delegatec.delegation import ReferenceExecutor
from delegatec.edge.arguments import short_name

SEMANTICS: Final[dict[str, Semantics]] = {
    **attention.SEMANTICS,
    **elementwise.SEMANTICS,
    **indexing.SEMANTICS,
    **integers.SEMANTICS,
    **layers.SEMANTICS,
    **moves.SEMANTICS,
    **quantized.SEMANTICS,
    **reductions.SEMANTICS,
}


class MlxReferenceExecutor(ReferenceExecutor):
    """Runs one blob. Buffers, and the cache that an app would install, keep their tensors between runs.

    Args:
        graph: the graph of the blob.
        unspecified: choices for unspecified behavior.
        max_elements: the largest tensor.
    """

    converts_outputs = True

    def __init__(
        self, graph: schema.GraphT, unspecified: Unspecified = DEFAULT, max_elements: int = MAX_ELEMENTS
    ) -> None:
        self.num_inputs = len(graph.inputs)
        self._graph = graph
        self._unspecified = unspecified
        self._max_elements = max_elements
        self._named: dict[str, memoryview] = {}
        self._kept: dict[int, torch.Tensor] | None = None
        self._cache: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def load_named_data(self, named_data: Mapping[str, memoryview]) -> None:
        """Sets the named data of the program, by key; the constants are views of it."""
        self._named = dict(named_data)
        self._kept = None
        self._cache.clear()

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the blob.

        Args:
            inputs: the delegate's inputs; an integer is a tensor of one element.

        Returns:
            Its outputs, in the dtypes of the graph: the runtime converts them to those of the caller.

        Raises:
            DelegatecError: DC408 if the runtime would fail; DC440 if the result is unspecified, and the
                choice is to raise.
        """
        graph = self._graph
        if len(inputs) != len(graph.inputs):
            reject(f"{len(inputs)} inputs instead of {len(graph.inputs)}")
        if self._kept is None:
            self._kept = self._loaded()
        run = self._run(self._kept)
        for slot, given in zip(graph.inputs, inputs, strict=True):
            if slot.type == schema.SlotType.INT:
                run.set_value(schema.ValueT(slot.id), int(given.item()))
            else:
                self._check_dtype(slot.id, given)
                run.set(slot.id, given.contiguous())
        run.run_chain(graph.mainChain)
        self._kept.update({slot.id: run.get(slot.id) for slot in graph.buffers})
        return [self._output(run, slot) for slot in graph.outputs]

    def _loaded(self) -> dict[int, torch.Tensor]:
        """Returns the constants, after the init chain, and the first tensors of buffers."""
        graph = self._graph
        found = {}
        for name in graph.names:
            if name.slot.type == schema.SlotType.TENSOR and name.slot.id < graph.numConstants:
                found[name.slot.id] = self._constant(name.slot.id, text(name.name))
        for slot in graph.buffers:
            dtype, shape = described(graph.tensors[slot.id])
            check_size(shape, self._max_elements)
            found[slot.id] = torch.zeros(shape, dtype=dtype)
        if graph.initChain >= 0:
            run = self._run(found)
            run.run_chain(graph.initChain)
            found = {slot: run.get(slot) for slot in found}
        return found

    def _run(self, known: Mapping[int, torch.Tensor]) -> Run:
        run = run_of(self._graph, self._unspecified, self._max_elements, cache=self._cache)
        for slot, tensor in known.items():
            run.set(slot, tensor)
        return run

    def _constant(self, slot: int, key: str) -> torch.Tensor:
        dtype, shape = described(self._graph.tensors[slot])
        size = math.prod(shape) * dtype.itemsize
        if key not in self._named:
            reject(f'it has no named data "{key}"')
        data = self._named[key].cast("B")[:size]
        if len(data) < size:
            reject(f'named data "{key}" has {len(data)} bytes instead of {size}')
        if not size:
            return torch.empty(shape, dtype=dtype)
        with warnings.catch_warnings():
            # torch warns that a tensor on read-only memory must not be written; nothing here writes one.
            warnings.simplefilter("ignore", UserWarning)
            view = torch.frombuffer(data, dtype=torch.uint8)
        if view.data_ptr() % dtype.itemsize:
            view = view.clone()
        return view.view(dtype).reshape(shape)

    def _check_dtype(self, slot: int, given: torch.Tensor) -> None:
        if slot >= len(self._graph.tensors):
            return
        dtype = dtype_of(self._graph.tensors[slot].dtype)
        if given.dtype != dtype:
            reject(f"input {slot} is {short_name(given.dtype)}, and the graph has {short_name(dtype)}")

    @staticmethod
    def _output(run: Run, slot: schema.SlotT) -> torch.Tensor:
        if slot.type == schema.SlotType.INT:
            return torch.tensor(run.value(schema.ValueT(slot.id)))
        return run.get(slot.id).contiguous()


def described(tensor: schema.TensorMetaT) -> tuple[torch.dtype, list[int]]:
    """Returns dtype and shape of a tensor that is described in a graph, with the largest sizes."""
    sizes = [size.value if size.value >= 0 else max(size.most, size.least, 1) for size in tensor.sizes]
    return dtype_of(tensor.dtype), sizes


def run_of(
    graph: schema.GraphT,
    unspecified: Unspecified = DEFAULT,
    max_elements: int = MAX_ELEMENTS,
    observe: Callable[[int, torch.Tensor], None] = lambda *_: None,
    begin: Callable[[int, int], None] = lambda *_: None,
    has_elements: bool = True,
    cache: dict[int, tuple[torch.Tensor, torch.Tensor]] | None = None,
) -> Run:
    """Returns the state of a run of a graph, with empty slots.

    Args:
        graph: the graph.
        unspecified: see `Run`.
        max_elements: see `Run`.
        observe: see `Run`.
        begin: receives the chain and the position of each instruction before it runs.
        has_elements: see `Run`.
        cache: see `Run`.
    """

    def run_chain(index: int) -> None:
        for position, instruction in enumerate(graph.chains[index].instructions):
            begin(index, position)
            name, node = NODE_NAMES[instruction.nodeType], instruction.node
            if name not in SEMANTICS:
                reject(f"the reference executor has no {name}")
            try:
                SEMANTICS[name](run, node)
            except (ArithmeticError, RuntimeError, LookupError, MemoryError, TypeError, ValueError) as error:
                # Operands that the checks missed, and torch rejects.
                reject(f"{name}: {(str(error) or repr(error)).splitlines()[0]}")

    count, values = count_of(graph), graph.numValues
    run = Run(count, values, run_chain, unspecified, max_elements, observe, has_elements, cache)
    return run
