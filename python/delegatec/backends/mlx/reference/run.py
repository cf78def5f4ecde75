# SPDX-License-Identifier: Apache-2.0
"""State of one run of a blob: its slots (the runtime's `ExecutionState`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NoReturn

import torch
from delegatec_schemas import mlx_graph as schema
from torch.nn import functional as f

from delegatec.backends.mlx.checks import text as text
from delegatec.backends.mlx.dtypes import FROM_FORMAT
from delegatec.backends.mlx.reference.unspecified import DEFAULT, Unspecified
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import shortened

MAX_ELEMENTS: Final = 2**31 - 1
_INT32: Final = torch.iinfo(torch.int32)


def reject(message: str) -> NoReturn:
    """Rejects a blob that the runtime or MLX would reject.

    Raises:
        DelegatecError: DC408.
    """
    raise DelegatecError(
        [Diagnostic(code="DC408", message=f"the MLX runtime cannot run this blob: {shortened(message)}")]
    )


class Run:
    """Slots of tensors and of values.

    Args:
        tensors: number of tensor slots.
        values: number of value slots.
        run_chain: runs a chain by its index.
        unspecified: choices for unspecified behavior.
        max_elements: the largest tensor; a damaged blob can request more memory than exists.
        observe: receives each slot that is written, and its new value.
        has_elements: whether tensors have elements; a run without them finds types.
        cache: layer -> keys and values of the cache that the runtime owns, which runs extend.

    Attributes:
        unspecified: as given.
        run_chain: as given.
        has_elements: as given.
        device: of the tensors that nodes make.
    """

    def __init__(
        self,
        tensors: int,
        values: int,
        run_chain: Callable[[int], None],
        unspecified: Unspecified = DEFAULT,
        max_elements: int = MAX_ELEMENTS,
        observe: Callable[[int, torch.Tensor], None] = lambda *_: None,
        has_elements: bool = True,
        cache: dict[int, tuple[torch.Tensor, torch.Tensor]] | None = None,
    ) -> None:
        self.unspecified = unspecified
        self.run_chain = run_chain
        self.has_elements = has_elements
        self.device = "cpu" if has_elements else "meta"
        self._tensors: list[torch.Tensor | None] = [None] * tensors
        self._values: list[int | None] = [None] * values
        self._max_elements = max_elements
        self._observe = observe
        self._cache = {} if cache is None else cache

    # ---- tensors -----------------------------------------------------------------------------------------

    def get(self, slot: int) -> torch.Tensor:
        """Returns the tensor of a slot."""
        found = self._tensors[slot]
        if found is None:
            reject(f"tensor {slot} is used before it is written")
        return found

    def set(self, slot: int, tensor: torch.Tensor) -> None:
        """Writes to a slot."""
        self.check_size(tensor.shape)
        self._tensors[slot] = tensor
        self._observe(slot, tensor)

    def __getitem__(self, operand: schema.TensorT) -> torch.Tensor:
        return self.get(operand.id)

    def __setitem__(self, operand: schema.TensorT, tensor: torch.Tensor) -> None:
        self.set(operand.id, tensor)

    def optional(self, operand: schema.TensorT | None) -> torch.Tensor | None:
        """Returns an operand that may be absent."""
        return None if operand is None else self[operand]

    def check_size(self, shape: Sequence[int]) -> None:
        """Rejects tensors that are too large."""
        check_size(shape, self._max_elements)

    def cached(
        self, layer: int, first: int, key: torch.Tensor, value: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Stores rows in a layer of the cache; returns all rows up to the last one of these.

        Rows before that were never stored are zeros.

        Args:
            layer: number of the layer.
            first: position of the first row.
            key: new rows of keys, [1, heads, n, depth].
            value: those of values, of the same shape.
        """
        if key.dim() != 4 or key.shape != value.shape or key.shape[0] != 1:
            reject(f"rows of a cache of shapes {list(key.shape)} and {list(value.shape)}")
        kept = self._cache.get(layer, (key[:, :, :0], value[:, :, :0]))
        if kept[0].shape[1] != key.shape[1] or kept[0].shape[3] != key.shape[3]:
            reject(f"rows of shape {list(key.shape)} for a cache of shape {list(kept[0].shape)}")
        if first < 0:
            reject(f"the position {first}")
        end = first + key.shape[2]
        self.check_size((*key.shape[:2], end, key.shape[3]))
        self._cache[layer] = _stored(kept[0], first, key), _stored(kept[1], first, value)
        keys, values = self._cache[layer]
        return keys[:, :, :end], values[:, :, :end]

    # ---- integers ----------------------------------------------------------------------------------------

    def value(self, operand: schema.ValueT) -> int:
        """Returns the integer of a slot."""
        slot: int = operand.id
        found = self._values[slot]
        if found is None:
            reject(f"value {operand.id} is used before it is written")
        return found

    def set_value(self, operand: schema.ValueT, value: int) -> None:
        """Writes an integer to a slot."""
        if not _INT32.min <= value <= _INT32.max:
            reject(f"the integer {value} is beyond 32 bits")
        self._values[operand.id] = value

    def integer(self, operand: schema.IntT) -> int:
        """Returns a literal, clamped to 32 bits, or a value."""
        if operand.isValue:
            return self.value(operand.value)
        return _clamped(int(operand.literal))

    def integers(self, operands: Iterable[schema.IntT]) -> list[int]:
        """Returns several integers."""
        return [self.integer(each) for each in operands]

    def number(self, operand: schema.FloatT) -> float:
        """Returns a literal, narrowed to float32, or a value."""
        if operand.isValue:
            return float(self.value(operand.value))
        return float(torch.tensor(operand.literal, dtype=torch.float32).item())

    def position(self, operand: schema.ValueOrTensorT) -> int | torch.Tensor:
        """Returns a value, or a tensor of positions."""
        return self.value(operand.value) if operand.isValue else self[operand.tensor]


def _stored(rows: torch.Tensor, first: int, new: torch.Tensor) -> torch.Tensor:
    end = first + new.shape[2]
    grown = f.pad(rows, (0, 0, 0, max(0, end - rows.shape[2])))
    return torch.cat([grown[:, :, :first], new.to(rows.dtype), grown[:, :, end:]], 2)


def _clamped(literal: int) -> int:
    low, high = int(_INT32.min), int(_INT32.max)
    return max(low, min(high, literal))


def check_size(shape: Sequence[int], max_elements: int) -> None:
    """Rejects tensors that are too large.

    Args:
        shape: of the tensor.
        max_elements: the largest number of elements.
    """
    if math.prod(shape) > max_elements:
        reject(f"a tensor of shape {list(shape)} has more than {max_elements} elements")


Semantics = Callable[[Run, Any], None]
"""Runs one node: reads its operands from the slots, and writes its results."""


def dtype_of(number: int) -> torch.dtype:
    """Returns the dtype of a type of the format."""
    if number not in FROM_FORMAT:
        reject(f"unsupported dtype {number}")
    return FROM_FORMAT[number]


def axis_of(axis: int, rank: int) -> int:
    """Returns an axis counted from the front."""
    if not -rank <= axis < rank:
        reject(f"axis {axis} of {rank} dimensions")
    return axis % rank


def axes_of(axes: Sequence[int] | None, rank: int) -> list[int]:
    """Returns the axes of a reduction: all if there are none."""
    return [axis_of(axis, rank) for axis in axes] if axes else list(range(rank))


def promoted(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """Returns tensors in the dtype that MLX promotes them to."""
    dtype = tensors[0].dtype
    for each in tensors[1:]:
        dtype = torch.promote_types(dtype, each.dtype)
    return [each.to(dtype) for each in tensors]


def floating(x: torch.Tensor) -> torch.Tensor:
    """Returns a tensor in floating point: integers become float32."""
    return x if x.dtype.is_floating_point else x.to(torch.float32)
