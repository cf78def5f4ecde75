# SPDX-License-Identifier: Apache-2.0
"""Text and size of the boxes in the drawing of a blob's graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from delegatec.delegation import BlobGraph, BlobLabels, BlobNode, BlobValue, Family, blob_operation_text
from delegatec.report.blob_sections import Group, Repetition, operations
from delegatec.report.layered import Cell
from delegatec.report.sizes import human_bytes

_LINE: Final = 15
# Mean width in pixels of a character in the title, and in the other lines.
_TITLE: Final = 8.0
_TEXT: Final = 6.3
# Maximum characters per line; longer ones end in an ellipsis.
_CHARACTERS: Final = 50
# Number of operation types that a collapsed group lists.
_NAMED: Final = 3
_SMALL: Final = frozenset({Family.MOVE, Family.CONVERT})


@dataclass(eq=False)
class Box(Cell):
    """A box: "op" with its family, and "small" or "unused"; "fold", "input" or "output".

    Attributes:
        title: the first line.
        lines: the other lines.
        kind: CSS classes, separated by spaces.
        tooltip: a full description.
    """

    title: str = ""
    lines: Sequence[str] = field(default_factory=tuple)
    kind: str = "op"
    tooltip: str = ""

    def __post_init__(self) -> None:
        texts = [len(self.title) * _TITLE, *(len(line) * _TEXT for line in self.lines)]
        if self.is_small:
            self.width, self.height = max(52.0, len(self.title) * _TEXT + 16), 20.0
        else:
            self.width = max(72.0, max(texts) + 22)
            self.height = 25.0 + _LINE * len(self.lines)
        self.pin = {"input": -1, "output": 1}.get(self.kind, 0)

    @property
    def is_small(self) -> bool:
        """Whether it is a single line in the smaller font."""
        return "small" in self.kind or self.kind in ("input", "output")


def operation_box(graph: BlobGraph, labels: BlobLabels, node: BlobNode, prefix: str) -> Box:
    """Returns the box of an operation.

    Args:
        graph: the graph.
        labels: the graph's labels.
        node: the operation.
        prefix: path of the enclosing module, which is omitted in names of weights.
    """
    tooltip = blob_operation_text(graph, labels, node)
    stored = [(role, id) for role, id in node.operands if graph.values.get(id, _NONE).bytes]
    literals = [graph.values[id].literal for _, id in stored if graph.values[id].literal]
    weights = [(role, id) for role, id in stored if not graph.values[id].literal]
    attributes = [f"{name} {text}" for name, text in node.attributes.items()]
    result = str(graph.values[node.results[0]]) if node.results else ""
    where = graph.values[node.results[0]].note if node.results else ""
    family = f"op {node.family.name.lower()}" + (" dead" if node.identifier in graph.dead else "")
    title = " ".join([node.operation, *literals])
    if node.family in _SMALL and not weights:
        brief = [text for name, text in node.attributes.items() if name != "dtype"]
        return Box(
            title=_cut(" ".join([title, *brief, "→", result])), kind=f"{family} small", tooltip=tooltip
        )
    lines = [
        ", ".join(attributes),
        *(_weight(graph, labels, *weight, prefix) for weight in weights),
        result,
        where,
    ]
    return Box(title=title, lines=[_cut(line) for line in lines if line], kind=family, tooltip=tooltip)


_NONE: Final = BlobValue("", ())


def folded_box(item: Group | Repetition, note: str) -> Box:
    """Returns the box of a group that is drawn separately; `note` says where, or what it is."""
    counts = Counter(node.operation for node in operations([item])).most_common()
    named = [f"{count} {name}" for name, count in counts[:_NAMED]]
    more = [f"{len(counts) - _NAMED} more kinds"] if len(counts) > _NAMED else []
    is_repeated = isinstance(item, Repetition)
    size = (
        f"{len(item.groups)} \u00d7 {item.groups[0].size}" if isinstance(item, Repetition) else str(item.size)
    )
    return Box(
        title=_cut(item.name),
        lines=[f"{size} operations{note}", ", ".join([*named, *more])],
        kind="fold many" if is_repeated else "fold",
        tooltip="\n".join(f"{count} {name}" for name, count in counts),
    )


def border_box(graph: BlobGraph, id: int, role: str, kind: str) -> Box:
    """Returns the box of a value that enters or leaves the drawing."""
    return Box(title=f"{role} {graph.values[id]}".strip(), kind=kind, tooltip=f"%{id} {graph.values[id]}")


def _weight(graph: BlobGraph, labels: BlobLabels, role: str, id: int, prefix: str) -> str:
    value = graph.values[id]
    name = labels.names.get(id, "").removeprefix(f"{prefix}." if prefix else "")
    # "weight conv.weight" would be redundant
    shown = name if role and name.rpartition(".")[2] == role else " ".join(filter(None, [role, name]))
    facts = f"{value} {human_bytes(value.bytes)}"
    limit = _CHARACTERS - len(facts) - 1
    # The end of a name is more specific than its beginning.
    return f"{shown if len(shown) <= limit else '…' + shown[1 - max(limit, 8) :]} {facts}".strip()


def _cut(text: str) -> str:
    return text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS - 1]}…"


def constant_bytes(graph: BlobGraph, nodes: Iterable[BlobNode]) -> int:
    """Returns the size of all constants that operations read, in bytes."""
    return sum(graph.values[id].bytes for id in {id for node in nodes for _, id in node.operands if id >= 0})
