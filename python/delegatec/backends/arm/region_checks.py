# SPDX-License-Identifier: Apache-2.0
"""Checks of the regions of an unpacked TOSA graph: the bodies of its control flow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from delegatec_schemas import tosa_graph as schema

from delegatec.backends.arm.building.operation import OPERATOR_NAMES
from delegatec.backends.arm.conformance.limits import MOST_NESTED

_Signature = list[tuple[tuple[int, ...], int]]
"""Shape and type of each input or output."""


def region_problems(graph: schema.GraphT) -> Iterator[str]:
    """Yields the problems of the regions of a graph whose operators are otherwise valid."""
    names = [region.name for region in graph.regions]
    if len({*names}) < len(names) or None in names[1:]:
        yield "two regions have one name, or one has none"
        return
    for region in graph.regions:
        if len(region.blocks) != 1:
            yield f"region {region.name!r} has {len(region.blocks)} blocks"
    blocks = {region.name: region.blocks[0] for region in graph.regions if region.blocks}
    found = [problem for block in blocks.values() for problem in _of_calls(block, blocks)]
    yield from found
    if found:
        return
    depths = _depths(blocks, names[0])
    if max(depths.values()) > MOST_NESTED:
        yield f"control flow nested deeper than {MOST_NESTED}, or a region that runs itself"
    yield from (f"no operator runs region {name!r}" for name in names if name not in depths)


def _depths(blocks: Mapping[bytes, schema.BlockT], main: bytes) -> dict[bytes, int]:
    """Returns the nesting depth of each region that runs, up to one more than the limit."""
    depths = {main: 0}
    pending = [main]
    while pending:
        name = pending.pop()
        if depths[name] > MOST_NESTED:
            continue
        for operator in blocks[name].operators:
            for inner in _regions_of(operator):
                if depths.get(inner, -1) <= depths[name]:
                    depths[inner] = depths[name] + 1
                    pending.append(inner)
    return depths


def _regions_of(operator: schema.OperatorT) -> list[bytes]:
    """Returns the names of the regions that an operator runs."""
    if operator.op == schema.Op.COND_IF:
        return [operator.attribute.thenGraph, operator.attribute.elseGraph]
    if operator.op == schema.Op.WHILE_LOOP:
        return [operator.attribute.condGraph, operator.attribute.bodyGraph]
    return []


def _of_calls(block: schema.BlockT, blocks: Mapping[bytes, schema.BlockT]) -> Iterator[str]:
    values = {each.name: each for each in block.tensors}
    for index, operator in enumerate(block.operators):
        if operator.op not in (schema.Op.COND_IF, schema.Op.WHILE_LOOP):
            continue
        missing = [f"region {name!r} is absent" for name in _regions_of(operator) if name not in blocks]
        given, results = (_signature(values, names) for names in (operator.inputs, operator.outputs))
        found = missing or _of_call(operator, given, results, blocks)
        yield from (f"operator {index}, {OPERATOR_NAMES[operator.op]}: {each}" for each in found)


def _of_call(
    operator: schema.OperatorT, given: _Signature, results: _Signature, blocks: Mapping[bytes, schema.BlockT]
) -> Iterator[str]:
    first, second = _regions_of(operator)
    if operator.op == schema.Op.COND_IF:
        condition = given[:1]
        expected = [(first, given[1:], results), (second, given[1:], results)]
    else:
        condition = _ends(blocks[first])[1]
        expected = [(first, given, condition), (second, given, given)]
        if results != given:
            yield "its results have other types than its operands"
    if [dtype for _, dtype in condition] != [schema.DType.BOOL] or math.prod(condition[0][0]) != 1:
        yield "its condition is not one BOOL"
    for name, inputs, outputs in expected:
        if _ends(blocks[name]) != (inputs, outputs):
            yield f"region {name!r} has other inputs or outputs"


def _ends(block: schema.BlockT) -> tuple[_Signature, _Signature]:
    values = {each.name: each for each in block.tensors}
    return _signature(values, block.inputs), _signature(values, block.outputs)


def _signature(values: Mapping[bytes, Any], names: Sequence[bytes]) -> _Signature:
    return [(tuple(values[name].shape), values[name].type) for name in names if name in values]
