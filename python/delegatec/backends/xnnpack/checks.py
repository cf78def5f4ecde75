# SPDX-License-Identifier: Apache-2.0
"""Checks of an unpacked blob, so that its users can trust it.

They find what the runtime refuses, and what it does not check but relies on: otherwise, it crashes or
computes wrong results. Conditions on the sizes of inputs are checked when a blob is run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from delegatec_schemas import xnnpack_graph as schema

from delegatec.backends.common.graph_format import fill_absent
from delegatec.backends.xnnpack.checking.nodes import problems_of_node
from delegatec.backends.xnnpack.checking.values import INPUT, OUTPUT, problems_of_value
from delegatec.backends.xnnpack.operands import (
    NO_VALUE,
    OPERATION_NAMES,
    operand_ids,
    packed_ids,
    result_ids,
    unpacked_fields,
)
from delegatec.backends.xnnpack.values import tensor_of

_MOST_EXTERNALS: Final = 4096
_LISTS: Final = {
    "Transpose": ("permutation",),
    "Reshape": ("shape",),
    "Slice": ("offsets", "sizes"),
    "ConstantPad": ("padsBefore", "padsAfter"),
}


def fill_lists(graph: schema.GraphT) -> None:
    """Replaces absent lists of the graph, its values and nodes, except for scales, by empty ones."""
    fill_absent(graph, "nodes", "values", "constants", "inputIds", "outputIds")
    for value in graph.values:
        tensor = tensor_of(value)
        if tensor is not None:
            fill_absent(tensor, "dims")
    for node in graph.nodes:
        if node.operation is not None:
            fill_absent(node.operation, *_LISTS.get(OPERATION_NAMES.get(node.operationType, ""), ()))


def problems_of(graph: schema.GraphT, segment: int) -> Iterator[str]:
    """Yields all problems of a graph.

    Args:
        graph: after `fill_lists`.
        segment: number of bytes after the FlatBuffer.
    """
    if graph.numExternals > _MOST_EXTERNALS:
        yield f"it has {graph.numExternals} external values, more than {_MOST_EXTERNALS}"
    values: dict[int, Any] = {}
    faulty: set[int] = set()
    for index, value in enumerate(graph.values):
        tensor = tensor_of(value)
        if tensor is None:
            yield f"unknown content of value {index}: type {value.contentType}"
            continue
        if tensor.id == NO_VALUE or tensor.id in values:
            yield f"value {index} has the id {tensor.id}, which is not its own"
        values.setdefault(tensor.id, value)
        for problem in problems_of_value(value, graph, segment):
            faulty.add(tensor.id)
            yield problem
    yield from _of_externals(values)
    yield from _of_nodes(graph, values, faulty)


def _of_externals(values: dict[int, Any]) -> Iterator[str]:
    tables = [tensor_of(value) for value in values.values()]
    counts = Counter(int(table.externalId) for table in tables if table.flags)
    for external, count in counts.items():
        if count > 1 and external != NO_VALUE:
            yield f"{count} values have the external id {external}"


def _of_nodes(graph: schema.GraphT, values: dict[int, Any], faulty: set[int]) -> Iterator[str]:
    constants = {id for id, value in values.items() if tensor_of(value).constantId}
    known = constants | {id for id, value in values.items() if tensor_of(value).flags & INPUT}
    computed: set[int] = set()
    known_nodes = [node for node in graph.nodes if node.operation is not None]
    packed = constants & {id for node in known_nodes for id in packed_ids(node)}
    for index, node in enumerate(graph.nodes):
        if node.operation is None:
            yield f"unknown operation of node {index}: type {node.operationType}"
            continue
        what = f"node {index} ({OPERATION_NAMES[node.operationType]})"
        ids = operand_ids(node)
        missing = [id for id in [*ids, *result_ids(node)] if id not in values]
        for id in missing:
            yield f"{what} uses id {id}, which no value has"
        for id in ids:
            if id in values and id not in known and id not in computed:
                yield f"{what} uses value {id} before it is computed"
        for id in sorted({id for _, id in unpacked_fields(node)}):
            # the runtime frees the data of values that it packs, after it has loaded them
            if id in packed:
                yield f"{what} reads constant {id}, which is a filter or bias; it must be a separate value"
        for id in result_ids(node):
            if id in known or id in computed:
                yield f"{what} writes value {id}, which has elements already"
            computed.add(id)
        # operations are checked only if their values are sound
        if not missing and faulty.isdisjoint([*ids, *result_ids(node)]):
            yield from (f"{what} {problem}" for problem in problems_of_node(node, values))
    for id, value in values.items():
        if tensor_of(value).flags & OUTPUT and id not in computed:
            yield f"output {id} is not computed"
    yield from _of_unread_maxima(graph, values)


def _of_unread_maxima(graph: schema.GraphT, values: dict[int, Any]) -> Iterator[str]:
    """Yields results for which the runtime has no memory, although the operation writes them."""
    read = {id for node in graph.nodes if node.operation is not None for id in operand_ids(node)}
    for index, node in enumerate(graph.nodes):
        for id in result_ids(node) if isinstance(node.operation, schema.ArgMaxPoolingT) else ():
            if id in values and id not in read and not tensor_of(values[id]).flags & OUTPUT:
                yield f"node {index} (ArgMaxPooling) writes value {id}, which nothing reads"
