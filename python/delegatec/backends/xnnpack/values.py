# SPDX-License-Identifier: Apache-2.0
"""Fields of the format's values."""

from __future__ import annotations

from typing import Any

from delegatec_schemas.xnnpack_graph import Content, GraphT, ValueT


def tensor_of(value: ValueT) -> Any:
    """Returns the table of a value's tensor; None if it has none."""
    content: Any = value.content
    is_quantized = value.contentType == Content.QuantizedTensor and content is not None
    return content.tensor if is_quantized else content


def quantization_of(value: ValueT) -> tuple[int, Any]:
    """Returns the type of a value's quantization in the union, and its table; 0 and None if it has none."""
    content: Any = value.content
    if value.contentType == Content.QuantizedTensor:
        return content.quantizationType, content.quantization
    return 0, None


def external_ids(graph: GraphT, flag: int) -> list[int]:
    """Returns the ids of a delegate's inputs or outputs, in the order of its arguments.

    Args:
        graph: the graph.
        flag: of the inputs, or of the outputs.
    """
    found = [tensor for tensor in map(tensor_of, graph.values) if tensor.flags & flag]
    return [int(tensor.id) for tensor in sorted(found, key=lambda tensor: int(tensor.externalId))]
