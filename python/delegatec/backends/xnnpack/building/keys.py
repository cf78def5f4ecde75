# SPDX-License-Identifier: Apache-2.0
"""Keys of constants outside of a blob, and offsets of those inside.

The runtime's weight cache finds the packed weights of a layer, of any program of the process, by the keys of
its filter and bias. It does not distinguish layers by scales, and only partly by shapes: XNNPACK's seed of an
operator is an exclusive or of sizes. So the key of a filter depends on its layer. That of one in a `.ptd` is
the name of the weight; there, the key of the bias depends on the filter's bytes and on the layer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from delegatec_schemas import xnnpack_graph as schema

from delegatec.backends.xnnpack.operands import FILTER, operand_fields, result_ids
from delegatec.backends.xnnpack.values import quantization_of, tensor_of
from delegatec.delegation import Part

_ALIGNMENT: Final = 16
# Kernels may read up to 16 bytes past the last element (XNN_EXTRA_BYTES).
_SPARE: Final = 16


@dataclass(frozen=True)
class StoredConstant:
    """A constant of a blob.

    Attributes:
        key: of its bytes in the draft.
        name: of its bytes in the named data of the program; None if they are in the blob.
    """

    key: str
    name: str | None


def layer_key(content: str, layer: str) -> str:
    """Returns the key of a filter, or of the bias of a filter in a `.ptd`.

    Args:
        content: the digest of its bytes.
        layer: what else it depends on: the layer that reads them, from `layer_text`.
    """
    return hashlib.sha256(f"{content} {layer}".encode()).hexdigest()


def layer_text(node: schema.NodeT, values: Sequence[schema.ValueT], keys: Mapping[int, str]) -> str:
    """Returns what the packed weights of a layer depend on, apart from the bytes of filter and bias.

    The sizes of inputs and results do not matter, so that methods share the weights of a layer.

    Args:
        node: the layer.
        values: all values, by id.
        keys: index of a constant -> key of its bytes, of scales.
    """
    attributes = {name: value for name, value in vars(node.operation).items() if not name.endswith("Id")}
    operands = dict(operand_fields(node))
    shape = [int(size) for size in tensor_of(values[operands[FILTER]]).dims]
    forms = {name: _form(values[id], keys) for name, id in operands.items()}
    results = [_form(values[id], keys) for id in result_ids(node)]
    return repr((node.operationType, sorted(attributes.items()), shape, sorted(forms.items()), results))


def _form(value: schema.ValueT, keys: Mapping[int, str]) -> Any:
    """Returns type and scales of a value."""
    kind, table = quantization_of(value)
    scales = {} if table is None else dict(vars(table))
    index = scales.pop("scalesConstantId", 0)
    return tensor_of(value).dataType, kind, sorted(scales.items()), keys.get(index, "")


def inner_constants(data: Mapping[str, Part]) -> tuple[dict[str, int], list[Part]]:
    """Lays out the constants inside of a blob.

    Args:
        data: key -> bytes of each.

    Returns:
        The offset of each, and the parts of all bytes; none if there are no constants.
    """
    offsets: dict[str, int] = {}
    parts: list[Part] = []
    end = 0
    for key, part in data.items():
        offsets[key] = end
        padding = -len(part) % _ALIGNMENT
        parts += [part, bytes(padding)] if padding else [part]
        end += len(part) + padding
    return offsets, [*parts, bytes(_SPARE)] if parts else []
