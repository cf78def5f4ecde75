# SPDX-License-Identifier: Apache-2.0
"""Tensor values at run time: views of planned memory, constants, or separate memory."""

from __future__ import annotations

import warnings
from typing import Final, NoReturn

import torch

from delegatec.delegation.protocol.parts import tensor_bytes
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.program.reader.model import Dynamism, Tensor, strides_of
from delegatec.verify.arena import Arena

Memory = Arena | bytearray | memoryview

# The fill byte of new memory. As a float of any width it is NaN, so that reads of uninitialized memory show
# in the result.
POISON: Final = 0xFF


def dtype_of(tensor: Tensor) -> torch.dtype:
    """Returns the torch dtype of a tensor value."""
    dtype = getattr(torch, tensor.kind.name)
    assert isinstance(dtype, torch.dtype)
    return dtype


class TensorSlot:
    """A tensor value of a running method.

    Args:
        spec: the tensor in the file.
        memory: its bytes: an arena or a constant; None for separate memory.
        offset: its offset in `memory`, in bytes.

    Attributes:
        spec: the tensor in the file.
        dtype: its torch dtype.
        sizes: its current shape.
    """

    def __init__(self, spec: Tensor, memory: Memory | None, offset: int = 0) -> None:
        self.spec = spec
        self.dtype = dtype_of(spec)
        self.sizes = spec.sizes
        self._memory = memory
        self._offset = offset
        self._view: torch.Tensor | None = None

    def read(self) -> torch.Tensor:
        """Returns the tensor, a view of its memory.

        Raises:
            DelegatecError: DC505, it has no memory yet.
        """
        if self._view is None:
            if self._memory is None:
                _fail("read of an uninitialized tensor")
            if isinstance(self._memory, Arena):
                self._memory.claim(self._offset, self._offset + self.spec.nbytes)
            self._view = _view(self._memory, self._offset, self.sizes, self.spec.dim_order, self.dtype)
        return self._view

    def resize(self, sizes: tuple[int, ...]) -> None:
        """Sets the shape, under the rules of the runtime.

        Args:
            sizes: the new shape.

        Raises:
            DelegatecError: DC505, a static tensor would change, or a bounded one exceed its bound.
        """
        if sizes == self.sizes:
            return
        spec = self.spec
        if len(sizes) != len(spec.sizes) or spec.dynamism is Dynamism.STATIC:
            _fail(f"a static tensor of shape {list(spec.sizes)} cannot be resized to {list(sizes)}")
        if spec.dynamism is Dynamism.BOUND and any(s > b for s, b in zip(sizes, spec.sizes, strict=True)):
            _fail(f"a tensor of at most {list(spec.sizes)} cannot be resized to {list(sizes)}")
        self.sizes = sizes
        self._view = None
        if spec.dynamism is Dynamism.UNBOUND:
            self.release()

    def write(self, value: torch.Tensor) -> None:
        """Copies a tensor of the same dtype, with its shape."""
        if value.dtype != self.dtype:
            _fail(f"cannot write {value.dtype} to a tensor of {self.dtype}")
        self.resize(tuple(value.shape))
        if self._memory is None:
            # a bounded shape may grow in the next call
            self._memory = bytearray([POISON]) * max(1, value.nbytes, self.spec.nbytes)
            self._offset = 0
        self.read().copy_(value)

    def allocate(self, sizes: tuple[int, ...]) -> None:
        """Sets the shape; memory that it has keeps its bytes."""
        self.resize(sizes)
        if self._memory is None:
            self.write(torch.empty(sizes, dtype=self.dtype))

    def read_memory(self) -> torch.Tensor:
        """Returns a row-major tensor of the same bytes: with the dimensions in the order of memory."""
        return self.read().permute(self.spec.dim_order)

    def write_memory(self, value: torch.Tensor) -> None:
        """Copies a tensor of the same dtype, with the dimensions in the order of memory."""
        order = self.spec.dim_order
        if order != tuple(range(len(order))):
            value = value.permute([order.index(dim) for dim in range(len(order))])
        self.write(value)

    def bind(self, value: torch.Tensor) -> None:
        """Binds it to a tensor of the caller, sharing its memory if the layout agrees."""
        self.resize(tuple(value.shape))
        in_order = value.permute(self.spec.dim_order).contiguous()
        self._memory, self._offset, self._view = tensor_bytes(in_order), 0, None

    def alias(self, other: TensorSlot, sizes: tuple[int, ...]) -> None:
        """Makes it a view of another tensor's memory, with another shape."""
        self.resize(sizes)
        self._memory, self._offset, self._view = other._memory, other._offset, None

    def release(self) -> None:
        """Releases its memory."""
        self._memory, self._view = None, None


def byte_range(tensor: torch.Tensor) -> tuple[int, int]:
    """Returns the address of a dense tensor's first byte, and the address after its last."""
    start = tensor.data_ptr()
    return start, start + tensor.numel() * tensor.element_size()


def _view(
    memory: Memory,
    offset: int,
    sizes: tuple[int, ...],
    dim_order: tuple[int, ...],
    dtype: torch.dtype,
) -> torch.Tensor:
    count = 1
    for size in sizes:
        count *= size
    if count == 0:
        return torch.empty(sizes, dtype=dtype)
    with warnings.catch_warnings():  # constants are read-only, and no kernel writes to them
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        flat = torch.frombuffer(memory, dtype=dtype, count=count, offset=offset)
    return flat.as_strided(sizes, strides_of(sizes, dim_order))


def _fail(message: str) -> NoReturn:
    raise DelegatecError([Diagnostic(code="DC505", message=message)])
