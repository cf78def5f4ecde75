# SPDX-License-Identifier: Apache-2.0
"""Operands and results of the format's operations."""

from __future__ import annotations

from typing import Any, Final

from delegatec_schemas.mps_graph import NodeT, Operation

OPERATION_NAMES: Final[dict[int, str]] = {
    value: name for name, value in vars(Operation).items() if not name.startswith("_") and value
}
RESULTS: Final = ("outputId", "outputIds", "output1Id", "output2Id", "output3Id")
"""Fields with the ids of results."""
NO_OPERANDS: Final = {"Relu": ("input2Id",), "Full": ("input1Id",)}
"""Operation -> fields with ids that the runtime does not read."""

_LISTS: Final = ("inputIds", "outputIds", "indicesId")


def ids_of(field: str, content: Any) -> list[int]:
    """Returns the value ids in a field of an unpacked operation; none if absent or of another type."""
    if content is None:
        return []
    if field in _LISTS:
        return [int(item) for item in content]
    return [int(content)] if field.endswith("Id") else []


def value_ids(operation: object) -> list[int]:
    """Returns all value ids in an unpacked operation, operands and results, in the order of its fields."""
    return [id for field, content in vars(operation).items() for id in ids_of(field, content)]


def result_ids(node: NodeT) -> list[int]:
    """Returns the ids of an operation's results."""
    fields = vars(node.mpsnodeUnion)
    return [id for field in RESULTS for id in ids_of(field, fields.get(field)) if id >= 0]


def operand_ids(node: NodeT) -> list[int]:
    """Returns the ids of an operation's operands, including those used for their shape only."""
    other = (*RESULTS, *NO_OPERANDS.get(OPERATION_NAMES[node.mpsnodeUnionType], ()))
    fields = vars(node.mpsnodeUnion).items()
    ids = [id for field, content in fields if field not in other for id in ids_of(field, content)]
    return [id for id in ids if id >= 0]
