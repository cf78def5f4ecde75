# SPDX-License-Identifier: Apache-2.0
"""Operands and results of the format's operations."""

from __future__ import annotations

from typing import Any, Final

from delegatec_schemas.xnnpack_graph import NodeT, Operation

OPERATION_NAMES: Final[dict[int, str]] = {
    value: name for name, value in vars(Operation).items() if not name.startswith("_") and value
}
NO_VALUE: Final = 2**32 - 1
"""The id of an absent bias, and the external id of inner values."""

_RESULTS: Final = ("outputId", "outputValueId", "outputIndexId")
FILTER: Final = "filterId"
"""The field of a layer's weight."""
BIAS: Final = "biasId"
"""The field of a layer's bias, which may be absent."""
_PACKED: Final = (FILTER, BIAS)

CONCATENATIONS: Final = {f"Concatenate{count}": count for count in (2, 3, 4, 5)}
"""Operation -> the number of values that it concatenates."""


def result_ids(node: NodeT) -> list[int]:
    """Returns the ids of an operation's results."""
    fields = vars(node.operation)
    return [fields[name] for name in _RESULTS if name in fields]


def operand_fields(node: NodeT) -> list[tuple[str, int]]:
    """Returns field and id of each of an operation's operands; an absent bias is left out."""
    operation: Any = node.operation
    count = CONCATENATIONS.get(OPERATION_NAMES[node.operationType])
    if count is not None:
        names = [f"input{ordinal}Id" for ordinal in range(1, count + 1)]
    else:
        names = [name for name in vars(operation) if name.endswith("Id") and name not in _RESULTS]
    found = [(name, int(getattr(operation, name))) for name in names]
    return [(name, id) for name, id in found if name != BIAS or id != NO_VALUE]


def operand_ids(node: NodeT) -> list[int]:
    """Returns the ids of an operation's operands; an absent bias is left out."""
    return [id for _, id in operand_fields(node)]


def packed_fields(node: NodeT) -> list[tuple[str, int]]:
    """Returns field and id of the values that the runtime copies when it loads a layer: filter and bias."""
    fields = vars(node.operation)
    return [(name, fields[name]) for name in _PACKED if fields.get(name, NO_VALUE) != NO_VALUE]


def packed_ids(node: NodeT) -> list[int]:
    """Returns the ids of the values that the runtime copies when it loads a layer."""
    return [id for _, id in packed_fields(node)]


def unpacked_fields(node: NodeT) -> list[tuple[str, int]]:
    """Returns field and id of the operands that the runtime reads at each run: all but filter and bias."""
    return [(name, id) for name, id in operand_fields(node) if name not in _PACKED]
