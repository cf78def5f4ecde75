# SPDX-License-Identifier: Apache-2.0
"""State of one run of a blob, and shared checks (the runtime's MPSGraphBuilder)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, NoReturn

import torch
from delegatec_schemas.mps_graph import NodeT

from delegatec.backends.common.reference.values import Values
from delegatec.backends.mps.dtypes import FLOATS, FROM_FORMAT
from delegatec.backends.mps.reference.unspecified import DEFAULT, Unspecified
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import shortened
from delegatec.edge.arguments import short_name

MAX_RANK: Final = 16
"""The maximum rank of an MPSNDArray."""
MAX_ELEMENTS: Final = 2**31 - 1
"""MPSNDArray asserts at more elements, or a longer dimension."""


def reject(message: str) -> NoReturn:
    """Rejects a blob that the runtime or MPSGraph would reject.

    Raises:
        DelegatecError: DC408.
    """
    raise DelegatecError(
        [Diagnostic(code="DC408", message=f"the MPS runtime cannot run this blob: {shortened(message)}")]
    )


class Run(Values):
    """Values by id, and shared helpers.

    Args:
        values: the number of ids.
        unspecified: choices for unspecified behavior of MPSGraph.
        max_elements: the largest value.
        read: used ids; by default all.
    """

    def __init__(
        self,
        values: int,
        unspecified: Unspecified = DEFAULT,
        max_elements: int = MAX_ELEMENTS,
        read: Collection[int] | None = None,
    ) -> None:
        super().__init__(values, reject, read)
        self._nibbles: dict[int, torch.Tensor] = {}
        self._max_elements = max_elements
        self.unspecified = unspecified

    def __getitem__(self, id: int) -> torch.Tensor:
        if id in self._nibbles:
            reject(f"value {id} is of type int4, which only DequantizePerChannelGroup reads")
        return super().__getitem__(id)

    def __setitem__(self, id: int, value: torch.Tensor) -> None:
        self._check_id(id)
        self.check_size(value.shape, f"value {id}")
        self._nibbles.pop(id, None)
        super().__setitem__(id, value)

    def check_size(self, shape: Sequence[int], what: str) -> None:
        """Rejects shapes that MPSGraph does not support."""
        if len(shape) > MAX_RANK:
            reject(f"{what} has {len(shape)} dimensions; MPSGraph supports {MAX_RANK}")
        if any(size < 1 for size in shape):
            reject(f"{what} is of shape {list(shape)}; MPSGraph does not support empty tensors")
        if math.prod(shape) > self._max_elements:
            reject(f"{what} is of shape {list(shape)}, more than {self._max_elements} elements")

    def broadcast(self, what: str, *tensors: torch.Tensor) -> torch.Size:
        """Returns the broadcast shape; MPSGraph broadcasts trailing dimensions as ATen does."""
        rank = max(tensor.dim() for tensor in tensors)
        result = [1] * rank
        for tensor in tensors:
            for aligned, size in enumerate(tensor.shape, rank - tensor.dim()):
                if size != 1 and result[aligned] not in (1, size):
                    shapes = " and ".join(str(list(tensor.shape)) for tensor in tensors)
                    reject(f"{what} of shapes {shapes}, which do not broadcast")
                result[aligned] = max(result[aligned], size)
        self.check_size(result, what)
        return torch.Size(result)

    def clear(self, id: int) -> None:
        """Removes the value of an id."""
        super().clear(id)
        self._nibbles.pop(id, None)

    def set_int4(self, id: int, value: torch.Tensor) -> None:
        """Sets an int4 value, given as int8."""
        self[id] = value
        self._nibbles[id] = value
        self.types[id] = None

    def int4(self, id: int) -> torch.Tensor:
        """Returns an int4 value as int8."""
        if id not in self._nibbles:
            reject(f"value {id} is not of type int4")
        return self._nibbles[id]

    def scalar(self, value: float, dtype: torch.dtype) -> float:
        """Returns a float after conversion to a constant of MPSGraph (`constantWithScalar`)."""
        result: float = self.cast(torch.tensor(value, dtype=torch.float32), dtype, "a constant").item()
        return result

    def scalar_tensor(self, value: float, dtype: torch.dtype) -> torch.Tensor:
        """Returns a float as a 0-d constant of MPSGraph."""
        return torch.tensor(self.scalar(value, dtype), dtype=dtype)

    def cast(self, x: torch.Tensor, dtype: torch.dtype, what: str) -> torch.Tensor:
        """Casts as `castTensor` does."""
        if x.dtype == dtype:
            return x
        if dtype == torch.bool:
            if x.dtype in FLOATS:
                partial = (x != 0) & (x.trunc() == 0)
                if self.unspecified.choose("bool_cast", lambda: partial, f"{what} of fractions") != "nonzero":
                    return x.trunc() != 0
            return x != 0
        if dtype in FLOATS or x.dtype == torch.bool:
            return x.to(dtype)
        limits = torch.iinfo(dtype)
        if x.dtype in FLOATS:
            return self._integer_of_float(x, dtype, what)
        outside = (x < limits.min) | (x > limits.max) if torch.iinfo(x.dtype).bits > limits.bits else False
        choice = self.unspecified.choose(
            "integer_casts", lambda: outside, f"{what} that does not fit {short_name(dtype)}"
        )
        if choice == "saturate" and outside is not False:
            x = x.clamp(limits.min, limits.max)
        return x.to(dtype)

    def _integer_of_float(self, x: torch.Tensor, dtype: torch.dtype, what: str) -> torch.Tensor:
        limits = torch.iinfo(dtype)
        # 2.0**63 is the first float above the highest int64, as for every type: compare with that.
        low, high = float(limits.min), float(limits.max + 1)
        truncated = x.double().trunc()
        fits = (truncated >= low) & (truncated < high)
        choice = self.unspecified.choose(
            "float_casts", lambda: ~fits, f"{what} that does not fit {short_name(dtype)}"
        )
        inside = torch.where(fits, truncated, 0.0).to(torch.int64)
        if choice == "wrap":
            wrapped = truncated.remainder(2.0**32).nan_to_num(low, low, low).to(torch.int64)
            return torch.where(fits, inside, wrapped).to(dtype)
        beyond = torch.where(truncated >= high, limits.max, torch.where(truncated < low, limits.min, 0))
        return torch.where(fits, inside, beyond).to(dtype)


Semantics = Callable[[Run, Any, NodeT], None]
"""Runs one operation, given the state, its operands, and its node."""


def ints(values: Iterable[int] | None) -> list[int]:
    """Returns a list of integers in an unpacked table; it is absent if empty."""
    return [] if values is None else [int(value) for value in values]


def present(values: Iterable[int] | None, what: str) -> list[int]:
    """Returns a list that the runtime requires."""
    if values is None:
        reject(f"it has no {what}")
    return ints(values)


def mps_shape(values: Iterable[int] | None) -> list[int]:
    """Returns a shape as the runtime reads it: [1] for rank 0."""
    return ints(values) or [1]


def format_dtype(datatype: int) -> torch.dtype:
    """Returns the runtime's dtype for a type of the format."""
    if datatype not in FROM_FORMAT:
        reject(f"unsupported type {datatype}")
    return FROM_FORMAT[datatype]


def one_dtype(*tensors: torch.Tensor) -> torch.dtype:
    """Returns the common dtype of tensors; MPSGraph aborts if they differ."""
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) > 1:
        reject(f"operands of one operation have the dtypes {', '.join(sorted(map(short_name, dtypes)))}")
    return tensors[0].dtype


def floats(what: str, *tensors: torch.Tensor) -> torch.dtype:
    """Returns the common dtype of tensors, which must be floating point."""
    dtype = one_dtype(*tensors)
    if dtype not in FLOATS:
        reject(f"{what} of {short_name(dtype)}; MPSGraph supports it for floats only")
    return dtype


def axis(dim: int, rank: int, what: str) -> int:
    """Returns an axis, which may be negative, counted from the start."""
    if not -rank <= dim < rank:
        reject(f"{what} along dimension {dim} of a tensor of {rank} dimensions")
    return dim % rank


def unsigned_axis(run: Run, dim: int, rank: int, what: str) -> int:
    """Returns an axis that MPSGraph declares as unsigned."""
    run.unspecified.choose("axes", lambda: dim < 0, f"{what} along dimension {dim}")
    return axis(dim, rank, what)


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """Converts float16 to float32, the dtype to compute in."""
    return tensor.float() if tensor.dtype == torch.float16 else tensor
