# SPDX-License-Identifier: Apache-2.0
"""Results in the memory of an operand, as the runtime plans them.

The runtime plans at the first run, with the sizes of that run, and computes the result of a binary operation
in the memory of an operand with as many elements that nothing else reads. It plans again only if a value
exceeds its upper bound (XNNPACK's runtime.c, until its commit b12ed13b of May 2026).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from delegatec.backends.xnnpack.checking.values import INPUT, OUTPUT
from delegatec.backends.xnnpack.operands import OPERATION_NAMES, operand_ids, result_ids
from delegatec.backends.xnnpack.reference import binary
from delegatec.backends.xnnpack.reference.tensors import Tensor, reject
from delegatec.backends.xnnpack.values import external_ids


class PlannedMemory:
    """The plan of one loaded graph.

    Args:
        graph: its table.
    """

    def __init__(self, graph: Any) -> None:
        readers = Counter(id for node in graph.nodes for id in set(operand_ids(node)))
        external = {*external_ids(graph, INPUT), *external_ids(graph, OUTPUT)}
        self._candidates = [
            (id, result)
            for node in graph.nodes
            if OPERATION_NAMES[node.operationType] in binary.SEMANTICS
            for result in result_ids(node)
            for id in operand_ids(node)
            if readers[id] == readers[result] == 1 and not {id, result} & external
        ]
        self._is_planned = False

    def check(self, tensors: Mapping[int, Tensor]) -> None:
        """Plans the memory after the first run, and checks it after later ones.

        Args:
            tensors: id -> tensor, with the elements of the run.

        Raises:
            DelegatecError: DC408 if a result exceeds the memory of the operand with which it shares it.
        """
        sizes = {
            id: value.numel()
            for pair in self._candidates
            for id in pair
            if not tensors[id].is_constant and (value := tensors[id].value) is not None
        }
        same = [(id, result) for id, result in self._candidates if id in sizes and sizes[id] == sizes[result]]
        if not self._is_planned:
            first = {result: id for id, result in reversed(same)}  # one operand each, the first that fits
            self._candidates = [(id, result) for result, id in first.items()]
            self._is_planned = True
            return
        for id, result in self._candidates:
            if (id, result) not in same:
                reject(
                    f"value {result} has the memory of value {id} since the first run, and has"
                    f" {sizes[result]} elements now instead of {sizes[id]}"
                )
