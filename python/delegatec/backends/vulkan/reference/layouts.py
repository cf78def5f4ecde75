# SPDX-License-Identifier: Apache-2.0
"""Layouts of quantized tensors that the runtime chooses when it loads a blob (its `ResolveLayouts`)."""

from __future__ import annotations

from typing import Any, Final

from delegatec_schemas.vulkan_graph import Content, GraphT, IntT, MemoryLayout

from delegatec.backends.vulkan.reference.tensors import text

_CONVOLUTION: Final = "et_vk.q8ta_conv2d.default"
_DEPTHWISE: Final = "et_vk.q8ta_conv2d_dw.default"
_FIXED: Final = frozenset(
    {
        MemoryLayout.INT8_4W4C,
        MemoryLayout.INT8_4H4W,
        MemoryLayout.INT8_4W,
        MemoryLayout.INT8_4C,
        MemoryLayout.INT8_4C1W,
    }
)
_LARGEST_UNFOLDED: Final = 4096
_FEW_CHANNELS: Final = 32
_GROUPS: Final = 13


def resolved_layouts(graph: GraphT) -> dict[int, int]:
    """Returns the layouts of tensors by id that replace those of the blob."""
    found: dict[int, int] = {}

    def layout(id: int) -> int | None:
        value = graph.values[id]
        if value.contentType != Content.Tensor:
            return None
        return found.get(id, int(value.content.memoryLayout))

    for call in graph.chain:
        name = text(call.name)
        ids = [int(id) for id in call.args]
        if name not in (_CONVOLUTION, _DEPTHWISE) or not ids:
            continue
        tensor = graph.values[ids[0]]
        if tensor.contentType != Content.Tensor or tensor.content.memoryLayout != MemoryLayout.INT8_CONV2D:
            continue
        if name == _CONVOLUTION and len(ids) > _GROUPS + 2:
            unfolds = unfolded(
                graph.values[ids[_GROUPS]].content, tensor.content, graph.values[ids[-1]].content
            )
            found[ids[0]] = MemoryLayout.INT8_4C if unfolds else MemoryLayout.INT8_4C1W
        elif name == _DEPTHWISE:
            found.setdefault(ids[0], MemoryLayout.INT8_4C1W)
    for call in graph.chain:
        ids = [int(id) for id in call.args]
        fixed = next((layout(id) for id in ids if layout(id) in _FIXED), None)
        if fixed is not None:
            found.update({id: fixed for id in ids if layout(id) == MemoryLayout.INT8_CONV2D})
    return found


def unfolded(groups: Any, x: Any, out: Any) -> bool:
    """Whether a convolution is computed as a product with unfolded patches, on most devices."""
    if not isinstance(groups, IntT) or groups.value != 1:
        return False
    return unfolds([int(size) for size in x.dims], [int(size) for size in out.dims], 1)


def unfolds(x: list[int], out: list[int], groups: int) -> bool:
    """Whether a convolution of shapes is computed as a product with unfolded patches."""
    channels = x[-3] // groups if len(x) > 2 else 1
    few = out[-1] * out[-2] <= _LARGEST_UNFOLDED if len(out) > 1 else True
    return groups == 1 and channels % 4 == 0 and (channels >= _FEW_CHANNELS or few)
