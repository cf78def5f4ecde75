# SPDX-License-Identifier: Apache-2.0
"""Copies of tensors to another storage or layout, in the graph of any compiler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from delegatec_schemas import vulkan_graph as schema

from delegatec.backends.vulkan.memory.sharing import stored_bytes, tensor_ids

# Operators that compute nothing: without the namespace and the overload.
_COPIES: Final = frozenset({"clone", "_clone_dim_order", "_to_copy", "_to_dim_order_copy"})


@dataclass(frozen=True)
class Transition:
    """A copy to another storage or layout.

    Attributes:
        call: its index.
        source: id of the tensor that it reads.
        result: id of the tensor that it writes.
        moved: bytes that it reads and writes.
    """

    call: int
    source: int
    result: int
    moved: int


def operator_name(call: schema.OperatorCallT) -> str:
    """Returns the operator that a call names."""
    return call.name.decode("utf-8", "backslashreplace") if isinstance(call.name, bytes) else call.name


def transitions(graph: schema.GraphT) -> Iterator[Transition]:
    """Yields the transitions of a graph, in order.

    The packing of constants, before the first run, is not one.
    """
    for index, call in enumerate(graph.chain):
        _, _, name = operator_name(call).partition(".")
        if name.partition(".")[0] not in _COPIES:
            continue
        source, result = (tensor_ids(graph, id) for id in (call.args[0], call.args[-1]))
        if len(source) != 1 or len(result) != 1:
            continue
        before, after = (graph.values[id].content for id in (*source, *result))
        if (before.storageType, before.memoryLayout) != (after.storageType, after.memoryLayout):
            yield Transition(index, source[0], result[0], stored_bytes(before) + stored_bytes(after))
