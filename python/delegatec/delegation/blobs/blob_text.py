# SPDX-License-Identifier: Apache-2.0
"""The graph in a blob as text that reads like code: one line per input, constant and operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from delegatec.delegation.blobs.blob_graph import BlobGraph, BlobLabels, BlobNode

# Longer left sides and expressions do not widen the columns.
_WIDEST: Final = (12, 28, 64)


def format_blob_graph(graph: BlobGraph, labels: BlobLabels | None = None) -> str:
    """Returns a graph as text: totals, inputs, constants, then operations in order.

    Args:
        graph: the graph.
        labels: names of its constants, and origins of its operations, if known.
    """
    labels = labels or BlobLabels()
    lines = [blob_headline(graph), *(f"  note: {note}" for note in blob_notes(graph)), *_totals(graph)]
    lines += _block(graph, labels)
    for name, body in graph.bodies.items():
        lines += [f"  {name}:", *_block(body, labels)]
    return "\n".join(lines) + "\n"


def _block(graph: BlobGraph, labels: BlobLabels) -> list[str]:
    """Returns the lines of one graph."""
    rows = [_declaration(graph, id, "input", "") for id in graph.inputs]
    rows += [_declaration(graph, id, "constant", labels.names.get(id, "")) for id in graph.constants]
    rows += [_operation(graph, labels, node) for node in graph.nodes]
    widths = [
        max((len(row[column]) for row in rows if len(row[column]) <= widest), default=0)
        for column, widest in enumerate(_WIDEST)
    ]
    lines = [_line(row, widths) for row in rows]
    return [*lines, f"  return {', '.join(_reference(graph, id) for id in graph.outputs)}"]


def blob_operation_text(graph: BlobGraph, labels: BlobLabels, node: BlobNode) -> str:
    """Returns an operation's line of `format_blob_graph`, and its origin on a second line."""
    ids, types, expression, comment = _operation(graph, labels, node)
    return f"{ids} {types} = {expression}" + (f"\n{comment}" if comment else "")


def blob_headline(graph: BlobGraph, size: Callable[[int], str] = "{} B".format) -> str:
    """Returns title and totals of a graph and its bodies, in a line; `size` formats byte counts."""
    data = sum(part.values[id].bytes for part in graph.walk() for id in part.constants)
    nodes, values, constants = (
        sum(len(getattr(part, name)) for part in graph.walk()) for name in ("nodes", "values", "constants")
    )
    return (
        f"{graph.title}: {_count(nodes, 'operation')}, {_count(values, 'value')}, "
        f"{_count(constants, 'constant')} of {size(data)}"
    )


def blob_notes(graph: BlobGraph) -> tuple[str, ...]:
    """Returns the notes of a graph, with the number of its dead operations."""
    dead = sum(len(part.dead) for part in graph.walk())
    if not dead:
        return graph.notes
    return (*graph.notes, f"dead code: {_count(dead, 'operation')}, which the runtime may omit")


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _totals(graph: BlobGraph) -> Iterable[str]:
    operations = Counter(node.operation for part in graph.walk() for node in part.nodes)
    by_count = sorted(operations.items(), key=lambda item: (-item[1], item[0]))
    yield "  operations: " + ", ".join(f"{count} {name}" for name, count in by_count)
    constants: dict[str, list[int]] = {}
    for value in (part.values[id] for part in graph.walk() for id in part.constants):
        total = constants.setdefault(value.dtype, [0, 0])
        total[0] += 1
        total[1] += value.bytes
    if constants:
        texts = (f"{count} of {dtype} in {size} B" for dtype, (count, size) in constants.items())
        yield "  constants: " + ", ".join(texts)


Row = tuple[str, str, str, str]
"""Results, their types, the expression, and a comment."""


def _line(row: Row, widths: Sequence[int]) -> str:
    ids, types, expression, comment = row
    text = f"  {ids:<{widths[0]}}  {types:<{widths[1]}} = {expression}"
    return f"{text:<{sum(widths) + 7}}  # {comment}" if comment else text


def _declaration(graph: BlobGraph, id: int, kind: str, name: str) -> Row:
    value = graph.values[id]
    facts = [f"{value.bytes} B" if value.bytes else "", value.note, value.literal]
    return f"%{id}", str(value), " ".join([kind, ", ".join(filter(None, facts))]).rstrip(), name


def _operation(graph: BlobGraph, labels: BlobLabels, node: BlobNode) -> Row:
    operands = [_operand(graph, labels, role, id) for role, id in node.operands]
    attributes = [f"{name}={text}" for name, text in node.attributes.items()]
    identifier = str(node.identifier)
    notes = " / ".join(graph.values[id].note for id in node.results if graph.values[id].note)
    comment = [notes, labels.modules.get(identifier, ""), labels.lines.get(identifier, "")]
    return (
        ", ".join(f"%{id}" for id in node.results),
        ", ".join(str(graph.values[id]) for id in node.results),
        f"{node.operation}({', '.join(operands + attributes)})",
        "  ".join(filter(None, comment)),
    )


def _operand(graph: BlobGraph, labels: BlobLabels, role: str, id: int) -> str:
    name = labels.names.get(id)
    text = _reference(graph, id) + (f' "{name}"' if name else "")
    return f"{role}={text}" if role else text


def _reference(graph: BlobGraph, id: int) -> str:
    """Returns an operand: `%3`, `none`, or `%3(0.5)` for a constant of one element."""
    if id not in graph.values:
        return "none"
    literal = graph.values[id].literal
    return f"%{id}({literal})" if literal else f"%{id}"
