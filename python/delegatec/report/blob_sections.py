# SPDX-License-Identifier: Apache-2.0
"""Division of a blob's graph by modules of the model, for readable drawings.

Consecutive operations of one module are a group, which contains the groups of its submodules: contracting
contiguous runs in execution order never creates a cycle. Consecutive groups of the same structure, such as
the layers of an encoder, are a repetition, of which one is drawn.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from delegatec.delegation import BlobGraph, BlobNode


@dataclass(frozen=True, eq=False)
class Group:
    """Consecutive operations of one module.

    Attributes:
        path: path of the module, such as "encoder.layer.0".
        name: the path relative to the enclosing group.
        items: its contents, in order.
        size: number of operations.
        signature: equal for groups of the same structure.
    """

    path: str
    name: str
    items: tuple[Item, ...]
    size: int
    signature: int


@dataclass(frozen=True, eq=False)
class Repetition:
    """Two or more consecutive groups of the same structure.

    Attributes:
        groups: the groups.
        path: path of all groups, such as "encoder.layer.0 … 11".
        name: the path relative to the enclosing group, such as "layer.0 … 11".
        size: number of operations.
    """

    groups: tuple[Group, ...]
    path: str
    name: str
    size: int


Item = BlobNode | Group | Repetition


def group_nodes(graph: BlobGraph, modules: Mapping[str, str]) -> tuple[Item, ...]:
    """Groups the operations of a graph by module.

    Args:
        graph: the graph.
        modules: identifier of an operation, as text -> path of its module.
    """
    paths = [modules.get(str(node.identifier), "").split(".") for node in graph.nodes]
    return _Grouping(graph, paths).items(range(len(graph.nodes)), ())


def operations(items: Sequence[Item]) -> Iterator[BlobNode]:
    """Yields the operations in items, in order."""
    for item in items:
        if isinstance(item, BlobNode):
            yield item
        elif isinstance(item, Group):
            yield from operations(item.items)
        else:
            yield from operations(item.groups)


class _Grouping:
    """Groups operations by the components of their module paths."""

    def __init__(self, graph: BlobGraph, paths: list[list[str]]) -> None:
        self._graph = graph
        self._paths = paths
        self._constants = set(graph.constants)
        self._signatures: dict[tuple[object, ...], int] = {}

    def items(self, indices: Sequence[int], prefix: tuple[str, ...]) -> tuple[Item, ...]:
        depth = len(prefix)
        found: list[Item] = []
        for part, run in itertools.groupby(indices, lambda index: self._part(index, depth)):
            members = list(run)
            if part is None or len(members) == 1:
                found += [self._graph.nodes[index] for index in members]
            else:
                group = self._group(members, (*prefix, part), depth)
                # A frame for just a list of layers is useless.
                is_list = len(group.items) == 1 and isinstance(group.items[0], Repetition)
                found.append(group.items[0] if is_list else group)
        return tuple(_with_repetitions(found))

    def _part(self, index: int, depth: int) -> str | None:
        path = self._paths[index]
        return path[depth] if depth < len(path) and path[depth] else None

    def _group(self, members: list[int], prefix: tuple[str, ...], depth: int) -> Group:
        # A module that only calls another one is not drawn.
        while (part := self._part(members[0], len(prefix))) is not None and all(
            self._part(index, len(prefix)) == part for index in members
        ):
            prefix = (*prefix, part)
        # An index is meaningless without its list.
        begin = depth - 1 if depth and prefix[depth].isdigit() else depth
        return Group(
            path=".".join(prefix),
            name=".".join(prefix[begin:]),
            items=self.items(members, prefix),
            size=len(members),
            signature=self._signature(members, len(prefix)),
        )

    def _signature(self, members: Sequence[int], depth: int) -> int:
        """Returns a key for operations, attributes, types, submodules, and data flow."""
        ids: dict[int, int] = {}
        facts: list[object] = []
        for index in members:
            node = self._graph.nodes[index]
            operands = []
            for role, id in node.operands:
                value = self._graph.values.get(id)
                stored = value.literal or "constant" if value and id in self._constants else ""
                operands.append((role, str(value), stored or ids.setdefault(id, len(ids))))
            results = [(ids.setdefault(id, len(ids)), str(self._graph.values[id])) for id in node.results]
            facts.append((node.operation, *node.attributes.items(), *operands, *results))
            facts.append(tuple(self._paths[index][depth:]))
        return self._signatures.setdefault(tuple(facts), len(self._signatures))


def _with_repetitions(items: Sequence[Item]) -> Iterator[Item]:
    def key(pair: tuple[int, Item]) -> object:
        index, item = pair
        return ("group", item.signature) if isinstance(item, Group) else index

    for _, run in itertools.groupby(enumerate(items), key):
        members = [item for _, item in run]
        groups = tuple(item for item in members if isinstance(item, Group))
        if len(groups) < 2:
            yield from members
        else:
            end = groups[-1].path.rpartition(".")[2]
            yield Repetition(
                groups,
                path=f"{groups[0].path} … {end}",
                name=f"{groups[0].name} … {end}",
                size=sum(group.size for group in groups),
            )
