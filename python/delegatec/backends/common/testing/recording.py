# SPDX-License-Identifier: Apache-2.0
"""Records the rows and rewrites that are applied while tests run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from torch.fx import Node

from delegatec.backends.common.legality import TableTarget
from delegatec.backends.common.record import Record, named
from delegatec.backends.common.table import OperatorTable
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Refusal, Rewrite, Rewrites
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import is_scalar


@contextmanager
def recorded(table: OperatorTable[Any, Any], rewrites: Rewrites) -> Iterator[Record]:
    """Records rows, without operations so far, and rewrites of private programs.

    Args:
        table: of the backend.
        rewrites: of the backend.
    """
    record = Record(defaultdict(set), defaultdict(set))
    names = {id(rewrite): name for name, rewrite in named(rewrites)}
    applied: dict[Node, tuple[str, set[str]]] = {}
    lower, call, legalize = OperatorTable.lower, Rewrite.__call__, TableTarget.legalize

    def recording_lower(table: Any, builder: Any, nodes: Iterable[Node]) -> None:
        nodes = list(nodes)
        for node in nodes:
            if node.target in table.rows:
                record.rows[str(node.target)]
        lower(table, builder, nodes)

    def recording_call(rewrite: Rewrite, builder: Builder, node: Node) -> Any:
        before = node.prev
        results = call(rewrite, builder, node)
        if results is not None and not isinstance(results, Refusal):
            made = set()
            while (before := before.next) is not node:
                if not is_scalar(before):
                    made.add(str(before.target))
            applied[node] = names[id(rewrite)], made
        return results

    def recording_legalize(target: Any, program: EdgeProgram, facts: Any) -> bool:
        applied.clear()  # tried by a partitioner
        edited = legalize(target, program, facts)
        for name, made in applied.values():
            record.rewrites[name].update(made - {"<built-in function getitem>"})
        return edited

    with (
        patch.object(OperatorTable, "lower", recording_lower),
        patch.object(Rewrite, "__call__", recording_call),
        patch.object(TableTarget, "legalize", recording_legalize),
    ):
        yield record
    record.untested.update(f"row of {name}" for name in {*map(str, table.rows)} - record.rows.keys())
    record.untested.update(f"rewrite of {name}" for name in {*names.values()} - record.rewrites.keys())
