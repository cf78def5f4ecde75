# SPDX-License-Identifier: Apache-2.0
"""Checks of an unpacked TOSA graph, so that its users can trust it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Set
from typing import Final

from delegatec_schemas import tosa_graph as schema

from delegatec.backends.arm.building.operation import OPERATOR_NAMES, RESULTS
from delegatec.backends.arm.dtypes import BITS
from delegatec.backends.arm.region_checks import region_problems
from delegatec.backends.common.graph_format import fill_absent

_SEVERAL_RESULTS: Final = frozenset({schema.Op.COND_IF, schema.Op.WHILE_LOOP})


def fill_lists(graph: schema.GraphT) -> None:
    """Replaces absent lists of the graph by empty ones, and empty bytes, which some writers add, by none."""
    fill_absent(graph, "regions")
    for region in graph.regions:
        fill_absent(region, "blocks")
        for block in region.blocks:
            fill_absent(block, "operators", "tensors", "inputs", "outputs", "shapes")
            for operator in block.operators:
                fill_absent(operator, "inputs", "outputs")
            for tensor in block.tensors:
                fill_absent(tensor, "shape")
                if tensor.data is not None and not len(tensor.data):
                    tensor.data = None


def problems_of(graph: schema.GraphT) -> Iterator[str]:
    """Yields all problems of a graph, after `fill_lists`."""
    if not graph.regions or not graph.regions[0].blocks:
        yield "it has no block of operators"
        return
    found = [problem for region in graph.regions for block in region.blocks for problem in _of_block(block)]
    yield from found
    if not found:
        yield from region_problems(graph)


def _of_block(block: schema.BlockT) -> Iterator[str]:
    known = {each.name for each in (*block.tensors, *block.shapes)}
    if None in known:
        yield "a tensor or a shape has no name"
    for tensor in block.tensors:
        if tensor.type not in BITS:
            yield f"unknown type of tensor {tensor.name!r}: {tensor.type}"
        elif any(size < 0 for size in tensor.shape):
            yield f"tensor {tensor.name!r} has the shape {list(tensor.shape)}"
        elif tensor.data is not None and len(tensor.data) < _bytes(tensor):
            yield f"tensor {tensor.name!r} has {len(tensor.data)} bytes, fewer than {_bytes(tensor)}"
    for shape in block.shapes:
        if len(shape.data if shape.data is not None else b"") != 8 * shape.rank:
            yield f"shape {shape.name!r} of {shape.rank} sizes has other bytes"
    for what, names in (("inputs", block.inputs), ("outputs", block.outputs)):
        for name in names:
            if name not in known:
                yield f"its {what} include {name!r}, which it does not have"
    for index, operator in enumerate(block.operators):
        if (
            operator.op not in OPERATOR_NAMES
            or operator.op == schema.Op.UNKNOWN
            or operator.attribute is None
        ):
            yield f"unknown operator {operator.op} at {index}"
        elif operator.attributeType != operator.op:
            yield f"operator {index}, {OPERATOR_NAMES[operator.op]}, has the attribute of another"
        expected = RESULTS.get(OPERATOR_NAMES.get(operator.op, ""), 1)
        if len(operator.outputs) != expected and operator.op not in _SEVERAL_RESULTS:
            yield f"operator {index} has {len(operator.outputs)} results"
        for name in (*operator.inputs, *operator.outputs):
            if name not in known:
                yield f"operator {index} uses {name!r}, which the graph does not have"
    yield from _of_reads(block, known)


def _of_reads(block: schema.BlockT, known: Set[bytes]) -> Iterator[str]:
    """Yields values that are read, and that nothing computes."""
    stored = [each.name for each in block.tensors if each.data is not None]
    shapes = [each.name for each in block.shapes]
    computed = {*block.inputs, *stored, *shapes, *(name for each in block.operators for name in each.outputs)}
    reads = [(f"operator {index} uses", each.inputs) for index, each in enumerate(block.operators)]
    for what, names in (*reads, ("its outputs include", block.outputs)):
        for name in names:
            if name in known and name not in computed:
                yield f"{what} {name!r}, which nothing computes"


def _bytes(tensor: schema.TensorT) -> int:
    """Returns the size of a constant."""
    bits: int = math.prod(tensor.shape) * BITS[tensor.type]
    return -(-bits // 8)
