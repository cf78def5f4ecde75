# SPDX-License-Identifier: Apache-2.0
"""The graph in a blob as plain values, for JSON."""

from __future__ import annotations

from typing import Any

from delegatec.delegation.blobs.blob_graph import BlobGraph, BlobLabels, BlobNode


def blob_graph_json(graph: BlobGraph, labels: BlobLabels | None = None) -> dict[str, Any]:
    """Returns a graph as values that `json` supports.

    Args:
        graph: the graph.
        labels: names of its constants, and origins of its operations, if known.
    """
    labels = labels or BlobLabels()
    described = _described(graph, labels)
    if graph.bodies:
        described["bodies"] = {name: _described(body, labels) for name, body in graph.bodies.items()}
    return described


def _described(graph: BlobGraph, labels: BlobLabels) -> dict[str, Any]:
    constants = frozenset(graph.constants)
    return {
        "title": graph.title,
        "notes": list(graph.notes),
        "totals": dict(graph.totals),
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "values": [_value(graph, labels, id, id in constants) for id in graph.values],
        "operations": [_operation(labels, node) for node in graph.nodes],
    }


def _value(graph: BlobGraph, labels: BlobLabels, id: int, is_constant: bool) -> dict[str, Any]:
    value = graph.values[id]
    described: dict[str, Any] = {"id": id, "dtype": value.dtype, "shape": list(value.shape)}
    if is_constant:
        described |= {"constant": True, "bytes": value.bytes}
    optional = {"name": labels.names.get(id), "literal": value.literal, "note": value.note}
    return described | {key: text for key, text in optional.items() if text} | dict(value.placement)


def _operation(labels: BlobLabels, node: BlobNode) -> dict[str, Any]:
    identifier = str(node.identifier)
    described: dict[str, Any] = {
        "identifier": node.identifier,
        "operation": node.operation,
        "operands": [{"role": role, "id": id} if role else {"id": id} for role, id in node.operands],
        "results": list(node.results),
        "attributes": dict(node.attributes),
    }
    optional = {"module": labels.modules.get(identifier), "source": labels.lines.get(identifier)}
    return described | {key: text for key, text in optional.items() if text}
