# SPDX-License-Identifier: Apache-2.0
"""Memory regions of tensors, to store aliased memory once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch

Key = TypeVar("Key", bound=Hashable)


@dataclass
class Region(Generic[Key]):
    """A run of memory shared by overlapping tensors of one dtype.

    Attributes:
        start: offset of the first byte in the tensors' storage.
        end: offset after the last byte.
        members: its tensors, in the given order.
    """

    start: int
    end: int
    members: list[tuple[Key, torch.Tensor]] = field(default_factory=list)

    def offset(self, tensor: torch.Tensor) -> int:
        """Returns the offset of a tensor's first element in this region, in elements."""
        return int(tensor.storage_offset()) - self.start // tensor.element_size()

    def bytes(self) -> memoryview:
        """Returns the region's content: a view if the tensors cover it without gaps."""
        tensor = self.members[0][1]
        size = self.end - self.start
        if not size:
            return memoryview(b"")
        covers = (m.numel() * m.element_size() == size and _is_dense(m) for _, m in self.members)
        if not any(covers):
            tensor = self._gathered()
            return tensor.view(torch.uint8).numpy().data
        flat = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage(), self.start, (size,), (1,))
        return flat.numpy().data

    def _gathered(self) -> torch.Tensor:
        """Returns a copy with zeros in the gaps, whose contents are arbitrary."""
        first = self.members[0][1]
        size = (self.end - self.start) // first.element_size()
        memory = first.as_strided((size,), (1,), self.start // first.element_size())
        whole = torch.zeros_like(memory)
        for _, tensor in self.members:
            covered = torch.tensor(self.offset(tensor))
            for count, stride in zip(tensor.shape, tensor.stride(), strict=True):
                covered = covered.unsqueeze(-1) + torch.arange(count) * stride
            whole[covered.flatten()] = memory[covered.flatten()]
        return whole


def regions(tensors: Mapping[Key, torch.Tensor]) -> list[Region[Key]]:
    """Groups tensors by shared memory.

    Args:
        tensors: CPU tensors with a storage; of any dtype and stride.

    Returns:
        Regions in the order of their first member. An empty tensor has a separate, empty region.
    """
    order = {key: index for index, key in enumerate(tensors)}
    spans: dict[tuple[int, torch.dtype], list[tuple[int, int, Key]]] = {}
    found: list[Region[Key]] = []
    for key, tensor in tensors.items():
        start, end = _span(tensor)
        if start == end:
            found.append(Region(start, end, [(key, tensor)]))
        else:
            spans.setdefault((tensor.untyped_storage().data_ptr(), tensor.dtype), []).append(
                (start, end, key)
            )
    for group in spans.values():
        found += _merge(sorted(group, key=lambda span: span[:2]), tensors)
    for region in found:
        region.members.sort(key=lambda member: order[member[0]])
    return sorted(found, key=lambda region: order[region.members[0][0]])


def _merge(group: Iterable[tuple[int, int, Key]], tensors: Mapping[Key, torch.Tensor]) -> list[Region[Key]]:
    merged: list[Region[Key]] = []
    for start, end, key in group:
        if not merged or start >= merged[-1].end:
            merged.append(Region(start, end))
        merged[-1].end = max(merged[-1].end, end)
        merged[-1].members.append((key, tensors[key]))
    return merged


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    first = int(tensor.storage_offset()) * tensor.element_size()
    if tensor.numel() == 0:
        return first, first
    last = sum((int(size) - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return first, first + (last + 1) * tensor.element_size()


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether each byte between the tensor's first and last belongs to exactly one element."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True
