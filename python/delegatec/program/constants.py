# SPDX-License-Identifier: Apache-2.0
"""Constants of a program, each stored once, as views of the bytes that torch holds."""

from __future__ import annotations

from typing import Any

import torch

from delegatec.program.content import ContentIndex


class ConstantPool:
    """Numbers constants from 1 (0 stands for "no constant") and gives equal ones the same number."""

    def __init__(self) -> None:
        self._data: list[memoryview] = []
        self._names: list[set[str]] = []
        self._by_address: dict[tuple[int, int], int] = {}
        self._by_content = ContentIndex()
        # a tensor that was made on the way must outlive the view of its bytes
        self._owners: list[torch.Tensor] = []

    def add(self, tensor: torch.Tensor, name: str) -> int:
        """The number of a constant.

        Args:
            tensor: dense and row-major; its bytes are not copied.
            name: its fully qualified name in the model.
        """
        # A file whose constants are all empty would have no segment for them, and be refused by the runtime.
        data = tensor_bytes(tensor) or memoryview(b"\0")
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
    def data(self) -> list[memoryview]:
        """Bytes of constant 1, 2, ..."""
        return self._data

    @property
    def names(self) -> list[tuple[str, ...]]:
        """All names of constant 1, 2, ..., sorted."""
        return [tuple(sorted(names)) for names in self._names]


def tensor_bytes(tensor: torch.Tensor) -> memoryview:
    """The bytes of a dense, row-major tensor, not copied."""
    flat = tensor.detach().reshape(-1)
    assert flat.numel() == 0 or flat.data_ptr() == tensor.data_ptr(), "the tensor is not dense"
    if flat.numel() == 0:
        return memoryview(b"")
    # one element may have any stride
    array: Any = flat.as_strided([flat.numel()], [1]).view(torch.uint8).numpy()
    return memoryview(array)
