# SPDX-License-Identifier: Apache-2.0
"""The graph of a blob as a `BlobGraph`.

A blob does not store the shapes of what it computes: they are those of a run without elements, for the
largest inputs. A slot holds several values in a run, which have different ids here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import torch
from delegatec_schemas import mlx_graph as schema

from delegatec.backends.mlx.checks import text
from delegatec.backends.mlx.dtypes import FROM_FORMAT
from delegatec.backends.mlx.operands import (
    CHAINS,
    FAMILIES,
    NODE_NAMES,
    RESULTS,
    new_node,
    tensor_ids,
    value_ids,
)
from delegatec.backends.mlx.reference.executor import described, run_of
from delegatec.delegation.blobs.blob_graph import BlobGraph, BlobNode, BlobValue, Family
from delegatec.diagnostics import DelegatecError

_DTYPES: Final[dict[torch.dtype, str]] = {
    torch.bool: "bool",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.float32: "f32",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.uint32: "u32",
}
_FAMILY: Final = {name: family for family, names in FAMILIES.items() for name in names}
_NEW: Final = ("UpdateAndAttend", "Trunc", "Flip")
"""Nodes that runtimes of 1.4.1 lack."""

Type = tuple[torch.dtype, tuple[int, ...]]


def blob_graph(graph: schema.GraphT) -> BlobGraph:
    """Returns the graph of a blob; chains that an operation runs, and the init chain, are bodies."""
    return _Converter(graph).converted()


class _Converter:
    """Numbers the values of a graph."""

    def __init__(self, graph: schema.GraphT) -> None:
        self._graph = graph
        self._types = _types(graph)
        self._values: dict[int, BlobValue] = {}
        self._tensors: dict[int, int] = {}  # slot -> id of its value
        self._integers: dict[int, int] = {}
        self._instructions = 0

    def converted(self) -> BlobGraph:
        graph = self._graph
        constants = [self._given(slot, self._constant(slot)) for slot in range(graph.numConstants)]
        for slot in graph.buffers:
            self._given(slot.id, self._described(slot.id, note="kept between runs"))
        inputs = [self._input(slot) for slot in graph.inputs]
        bodies: dict[str, BlobGraph] = {}
        if graph.initChain >= 0:
            bodies["when loaded"] = self._body(graph.initChain, bodies)
        nodes = tuple(self._nodes(graph.mainChain, bodies))
        return BlobGraph(
            title="MLX graph",
            nodes=nodes,
            values=self._values,
            inputs=tuple(inputs),
            outputs=tuple(self._output(slot) for slot in graph.outputs),
            constants=tuple(constants),
            notes=tuple(_notes(graph)),
            totals={"temporaries": graph.numTemporaries},
            bodies=bodies,
        )

    def _add(self, value: BlobValue) -> int:
        self._values[len(self._values)] = value
        return len(self._values) - 1

    def _given(self, slot: int, value: BlobValue) -> int:
        self._tensors[slot] = self._add(value)
        return self._tensors[slot]

    def _constant(self, slot: int) -> BlobValue:
        names = (text(each.name) for each in self._graph.names if each.slot.id == slot)
        key = next(names)
        dtype, shape = described(self._graph.tensors[slot])
        return BlobValue(
            _DTYPES[dtype],
            tuple(shape),
            math.prod(shape) * dtype.itemsize,
            note=f"named data {key[:12]}",
            placement={"key": key},
        )

    def _described(self, slot: int, note: str = "") -> BlobValue:
        dtype, shape = described(self._graph.tensors[slot])
        return BlobValue(_DTYPES[dtype], tuple(shape), note=note)

    def _input(self, slot: schema.SlotT) -> int:
        if slot.type == schema.SlotType.INT:
            self._integers[slot.id] = self._add(BlobValue("int", ()))
            return self._integers[slot.id]
        if slot.id < len(self._graph.tensors):
            return self._given(slot.id, self._described(slot.id))
        return self._given(slot.id, BlobValue("?", ()))

    def _output(self, slot: schema.SlotT) -> int:
        known = self._integers if slot.type == schema.SlotType.INT else self._tensors
        return known[slot.id] if slot.id in known else self._add(BlobValue("?", ()))

    def _body(self, chain: int, bodies: dict[str, BlobGraph]) -> BlobGraph:
        nodes = tuple(self._nodes(chain, bodies))
        results = tuple(id for node in nodes for id in node.results)
        used = {*results, *(id for node in nodes for _, id in node.operands)}
        values = {id: self._values[id] for id in sorted(used)}
        return BlobGraph(f"chain {chain}", nodes, values, (), results, ())

    def _nodes(self, chain: int, bodies: dict[str, BlobGraph]) -> Iterator[BlobNode]:
        for position, instruction in enumerate(self._graph.chains[chain].instructions):
            identifier = self._instructions
            self._instructions += 1
            name, fields = NODE_NAMES[instruction.nodeType], vars(instruction.node)
            operands = [
                (_role(field, index, len(ids)), id)
                for field, content in fields.items()
                if field not in RESULTS
                for ids in [list(self._read(content))]
                for index, id in enumerate(ids)
            ]
            for field in CHAINS.get(name, ()):
                index = getattr(instruction.node, field)
                bodies[f"chain {index}"] = self._body(index, bodies)
            results = [
                id
                for field, content in fields.items()
                if field in RESULTS
                for id in self._written(content, (chain, position))
            ]
            yield BlobNode(
                identifier=identifier,
                operation=name,
                family=_FAMILY.get(name, Family.ARITHMETIC),
                operands=tuple(operands),
                results=tuple(results),
                attributes=self._attributes(name, fields),
            )

    def _read(self, content: Any) -> Iterator[int]:
        for slot in tensor_ids(content):
            if slot not in self._tensors:
                self._given(slot, BlobValue("?", ()))
            yield self._tensors[slot]
        for slot in value_ids(content):
            if slot not in self._integers:
                self._integers[slot] = self._add(BlobValue("int", ()))
            yield self._integers[slot]

    def _written(self, content: Any, where: tuple[int, int]) -> Iterator[int]:
        for slot in tensor_ids(content):
            found = self._types.get((*where, slot))
            value = BlobValue("?", ()) if found is None else BlobValue(_DTYPES[found[0]], found[1])
            yield self._given(slot, value)
        for slot in value_ids(content):
            self._integers[slot] = self._add(BlobValue("int", ()))
            yield self._integers[slot]

    def _attributes(self, name: str, fields: dict[str, Any]) -> dict[str, str]:
        defaults = vars(new_node(name)[1])
        texts = {}
        for field, content in fields.items():
            if field in CHAINS.get(name, ()):
                texts[_snake(field)] = f"chain {content}"
                continue
            found = _text(field, content)
            if found and content != defaults[field]:
                texts[_snake(field)] = found
        return texts


def _types(graph: schema.GraphT) -> dict[tuple[int, int, int], Type]:
    """Returns the type of each slot that an instruction writes, as far as a run without elements goes."""
    found: dict[tuple[int, int, int], Type] = {}
    where = [(-1, -1)]

    def begin(chain: int, position: int) -> None:
        where[0] = chain, position

    def observe(slot: int, tensor: torch.Tensor) -> None:
        found[(*where[0], slot)] = tensor.dtype, tuple(tensor.shape)

    run = run_of(graph, observe=observe, begin=begin, has_elements=False)
    known = [
        *range(graph.numConstants),
        *(slot.id for slot in (*graph.inputs, *graph.buffers) if slot.type == 0),
    ]
    try:
        for slot in known:
            dtype, shape = described(graph.tensors[slot])
            run.check_size(shape)
            run.set(slot, torch.empty(shape, dtype=dtype, device="meta"))
        if graph.initChain >= 0:
            run.run_chain(graph.initChain)
        run.run_chain(graph.mainChain)
    except (DelegatecError, IndexError, NotImplementedError):
        pass  # what depends on elements, or on nodes without semantics, has no type
    return found


def _notes(graph: schema.GraphT) -> Iterator[str]:
    used = {NODE_NAMES[each.nodeType] for chain in graph.chains for each in chain.instructions}
    new = [name for name in _NEW if name in used]
    if new:
        yield f"{', '.join(new)}: from ExecuTorch 1.5 on"
    layers = {
        each.node.layer
        for chain in graph.chains
        for each in chain.instructions
        if NODE_NAMES[each.nodeType] == "UpdateAndAttend"
    }
    if layers:
        named = ", ".join(map(str, sorted(layers, key=str)))
        yield f"the app installs a cache of keys and values: layer{'s' * (len(layers) > 1)} {named}"
    if "MetalKernel" in used:
        yield "runtimes refuse MetalKernel, unless they were built to run kernels of programs"
    if any(size.value < 0 for tensor in graph.tensors for size in tensor.sizes):
        yield "sizes vary: these are the largest"


def _role(field: str, index: int, count: int) -> str:
    """Returns the role of an operand; none for the first ones, whose order implies it."""
    if field in ("x", "a", "b", "q", "mat1", "mat2", "tensors", "dst", "condition"):
        return ""
    return _snake(field) if count == 1 else f"{_snake(field)}{index}"


def _text(field: str, content: Any) -> str:
    if content is None or isinstance(content, (schema.TensorT, schema.ValueT)):
        return ""
    if field.lower().endswith("dtype"):
        return _DTYPES.get(FROM_FORMAT.get(content, torch.bool), str(content))
    if isinstance(content, bytes):
        return text(content)
    if isinstance(content, float):
        return f"{content:g}"
    if isinstance(content, (schema.IntT, schema.FloatT)):
        return "" if content.isValue else f"{content.literal:g}"
    if isinstance(content, schema.IndexT):
        return f"{content.literal}" if content.kind == 0 else ""
    if isinstance(content, schema.ValueOrTensorT):
        return ""
    if isinstance(content, list):
        if content and isinstance(content[0], schema.TensorT):
            return ""
        parts = [
            "?" if getattr(each, "isValue", False) else _text(field, each) or str(each) for each in content
        ]
        return f"[{', '.join(parts)}]"
    return str(content)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
