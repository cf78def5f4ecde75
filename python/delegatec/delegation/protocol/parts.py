# SPDX-License-Identifier: Apache-2.0
"""Parts of a blob: bytes in memory, and bytes computed while they are written."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

import torch

from delegatec.delegation.faults import attribute_errors, kind_of, wrong_result
from delegatec.edge.scaled import ScaledTensor

# The chunk size of computed bytes: a chunk stays in the CPU's cache until it is written.
_CHUNK: Final = 256 * 1024


class ComputedBytes(ABC):
    """Bytes computed on demand, such as weights converted to another dtype.

    They are deterministic, and never all in memory. The constructor raises all errors: the bytes may be read
    while a file is half written.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Returns the number of bytes."""

    @abstractmethod
    def __getitem__(self, span: slice, /) -> bytes | memoryview:
        """Returns a contiguous range of them.

        Args:
            span: start and end as in any sequence; no step.
        """


Part = bytes | memoryview | ComputedBytes
"""A byte sequence of a blob."""


class Elements(Protocol):
    """A sequence of elements: a tensor of one dimension, or an object that computes slices of one."""

    def numel(self) -> int:
        """Returns their number."""
        ...

    def __getitem__(self, span: slice, /) -> torch.Tensor:
        """Returns a contiguous range of them, of one dimension."""
        ...


class TensorBytes(ComputedBytes):
    """Elements, computed or converted when they are written.

    Args:
        values: the elements.
        size: bytes per element.

    Attributes:
        values: as given.
    """

    def __init__(self, values: Elements, size: int) -> None:
        self.values = values
        self._size = size

    def __len__(self) -> int:
        return self._size * self.values.numel()

    def __getitem__(self, span: slice, /) -> memoryview:
        start, end, _ = span.indices(len(self))
        elements = self.elements(start // self._size, -(-end // self._size))
        offset = start % self._size
        return tensor_bytes(elements)[offset : offset + end - start]

    def elements(self, start: int, end: int) -> torch.Tensor:
        """Returns a range of them."""
        return self.values[start:end]


def tensor_bytes(tensor: torch.Tensor) -> memoryview:
    """Returns the bytes of a tensor in row-major order: a view of its storage if it is row-major."""
    flat = tensor.detach().reshape(-1).contiguous()  # a 1-d tensor keeps its stride
    if not flat.numel():
        return memoryview(b"")
    if flat.numel() == 1:  # its stride may have any value
        flat = flat.as_strided([1], [1])
    return memoryview(flat.view(torch.uint8).numpy())  # type: ignore[arg-type]


def tensor_part(tensor: torch.Tensor) -> memoryview | TensorBytes:
    """Returns the bytes of a tensor in row-major order, not copied if it is row-major."""
    if isinstance(tensor, ScaledTensor):
        return TensorBytes(tensor.detach().reshape(-1), tensor.itemsize)
    return tensor_bytes(tensor)


def digest(part: Part) -> str:
    """Returns the SHA-256 of the bytes of a part, in hexadecimal."""
    found = hashlib.sha256()
    for chunk in chunks(part):
        found.update(chunk)
    return found.hexdigest()


def chunks(part: Part) -> Iterator[bytes | memoryview]:
    """Yields the bytes of a part in order: computed ones in chunks, others at once."""
    if not isinstance(part, ComputedBytes):
        yield part
        return
    for start in range(0, len(part), _CHUNK):
        yield read(part, start, start + _CHUNK)


def read(part: Part, start: int, end: int) -> bytes | memoryview:
    """Returns a byte range of a part.

    Raises:
        DelegatecError: DC410, DC411 for computed bytes of a plug-in that raise, or are too few or too many.
    """
    if not isinstance(part, ComputedBytes):
        return part[start:end]
    what = f"{type(part).__qualname__} in a blob"
    with attribute_errors(part, what):
        found = part[start:end]
    wanted = min(end, len(part)) - start
    if not isinstance(found, (bytes, memoryview)):
        raise wrong_result(what, kind_of(found), "bytes or a memoryview")
    if len(found) != wanted:
        raise wrong_result(what, f"{len(found)} bytes", f"{wanted} bytes, from {start} on")
    return found


def join(parts: Iterable[Part]) -> bytes:
    """Returns a concatenated copy of all parts."""
    return b"".join(chunk for part in parts for chunk in chunks(part))
