# SPDX-License-Identifier: Apache-2.0
"""The constants of a program, deduplicated, as views of torch's memory."""

from __future__ import annotations

import torch

from delegatec.delegation.protocol.parts import Part, tensor_part
from delegatec.program.content import ContentIndex


class ConstantPool:
    """Assigns indices to constants, from 1 (0 means "no constant"); equal constants have the same index."""

    def __init__(self) -> None:
        self._data: list[Part] = []
        self._names: list[set[str]] = []
        self._by_address: dict[tuple[int, int], int] = {}
        self._by_content = ContentIndex()
        # keeps temporary tensors alive as long as the views of their bytes
        self._owners: list[torch.Tensor] = []

    def add(self, tensor: torch.Tensor, name: str) -> int:
        """Returns the index of a constant.

        Args:
            tensor: dense and row-major; its bytes are not copied.
            name: its fully qualified name in the model.
        """
        assert tensor.is_contiguous(), "the tensor is not row-major"
        # The runtime rejects a file without a constant segment, which a file with only empty constants would
        # be.
        data = tensor_part(tensor) or memoryview(b"\0")
        address = (tensor.data_ptr(), len(data))
        index = self._by_address.get(address)
        if index is None:
            index = self._by_content.find_or_add([data], len(self._data) + 1)
            self._by_address[address] = index
            self._owners.append(tensor)
        if index > len(self._data):
            self._data.append(data)
            self._names.append(set())
        self._names[index - 1].add(name)
        return index

    @property
    def data(self) -> list[Part]:
        """Bytes of constants 1, 2, ..."""
        return self._data

    @property
    def names(self) -> list[tuple[str, ...]]:
        """All names of constants 1, 2, ..., sorted."""
        return [tuple(sorted(names)) for names in self._names]
