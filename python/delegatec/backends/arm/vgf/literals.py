# SPDX-License-Identifier: Apache-2.0
"""Types of a SPIR-V module, and the constants that it contains itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from delegatec_schemas.tosa_graph import DType

from delegatec.backends.arm.building.operation import Value

Elements = np.ndarray[Any, np.dtype[Any]]

_INTEGERS: Final = {8: DType.INT8, 16: DType.INT16, 32: DType.INT32, 64: DType.INT48}
_FLOATS: Final = {(32,): DType.FP32, (16,): DType.FP16, (16, 0): DType.BF16}
"""Width and encoding -> type."""
_STORED: Final[dict[int, np.dtype[Any]]] = {
    DType.BOOL: np.dtype("|u1"),
    DType.INT8: np.dtype("|i1"),
    DType.INT16: np.dtype("<i2"),
    DType.INT32: np.dtype("<i4"),
    DType.INT48: np.dtype("<i8"),
    DType.FP32: np.dtype("<f4"),
    DType.FP16: np.dtype("<f2"),
    DType.BF16: np.dtype("<u2"),
}
_MOST: Final = 1 << 24
"""How many elements a constant in a module may have."""
_INT48_BYTES: Final = 6


@dataclass(frozen=True)
class Type:
    """The type of a tensor, or of its elements.

    Attributes:
        dtype: of `DType`.
        shape: sizes; empty for an element.
    """

    dtype: int
    shape: tuple[int, ...] = ()

    @property
    def bytes(self) -> int:
        """The size of a tensor in the section of constants."""
        return math.prod(self.shape) * _STORED[self.dtype].itemsize


class Literals:
    """Types and constants of a module, by id.

    Methods define them by their instructions, and raise one of several exceptions for invalid ones.
    """

    def __init__(self) -> None:
        self.types: dict[int, Any] = {}
        self._elements: dict[int, Elements] = {}
        self._kinds: dict[int, Type] = {}

    def elements(self, id: int) -> Elements:
        """Returns the elements of a constant, in row-major order."""
        return self._elements[id]

    def integer(self, id: int) -> int:
        """Returns a constant of one element."""
        return int(self._elements[id][0])

    def value(self, id: int, is_shape: bool) -> Value:
        """Returns a constant as an operand.

        Args:
            id: its id.
            is_shape: whether it is a shape, which is a tensor in the module.
        """
        elements, kind = self._elements[id], self._kinds[id]
        scalars = tuple(elements.tolist())
        if is_shape:
            data = elements.astype("<i8").tobytes()
            return Value(f"shape_{id}", DType.SHAPE, (len(elements),), data, scalars, True)
        data = elements.tobytes()
        if kind.dtype == DType.INT48:
            data = elements.view("|u1").reshape(-1, 8)[:, :_INT48_BYTES].tobytes()
        return Value(f"constant_{id}", kind.dtype, kind.shape, data, scalars, True)

    # ---- instructions ------------------------------------------------------------------------------------

    def boolean_type(self, id: int) -> None:
        """Declares the type of bools."""
        self.types[id] = Type(DType.BOOL)

    def integer_type(self, id: int, width: int, _: int) -> None:
        """Declares a type of integers; those of 64 bits have 48 in TOSA."""
        self.types[id] = Type(_INTEGERS[width])

    def float_type(self, id: int, *kind: int) -> None:
        """Declares a floating-point type."""
        self.types[id] = Type(_FLOATS[kind])

    def struct_type(self, id: int, *members: int) -> None:
        """Declares the type of several results."""
        self.types[id] = [self.types[each] for each in members]

    def tensor_type(self, id: int, element: int, rank: int, shape: int) -> None:
        """Declares a type of tensors."""
        sizes = tuple(self._elements[shape].tolist())
        if len(sizes) != self.integer(rank) or min(sizes, default=1) < 1:
            raise ValueError(f"a tensor of its module has the sizes {list(sizes)}")
        self.types[id] = Type(self.types[element].dtype, sizes)

    def true(self, kind: int, id: int) -> None:
        """Defines the bool constant true."""
        self._define(id, kind, np.ones(1, np.uint8))

    def false(self, kind: int, id: int) -> None:
        """Defines the bool constant false."""
        self._define(id, kind, np.zeros(1, np.uint8))

    def constant(self, kind: int, id: int, *words: int) -> None:
        """Defines a scalar constant."""
        data = b"".join(word.to_bytes(4, "little") for word in words)
        stored = _STORED[self.types[kind].dtype]
        self._define(id, kind, np.frombuffer(data[: stored.itemsize], stored))

    def composite(self, kind: int, id: int, *members: int) -> None:
        """Defines a tensor, or a list of sizes."""
        elements = [self._elements[each] for each in members]
        self._check(kind, sum(map(len, elements)))
        self._define(id, kind, np.concatenate(elements))

    def replicated(self, kind: int, id: int, member: int) -> None:
        """Defines a tensor of equal members."""
        elements = self._elements[member]
        count = math.prod(self.types[kind].shape)
        self._check(kind, count)
        self._define(id, kind, np.tile(elements, count // len(elements)))

    def null(self, kind: int, id: int) -> None:
        """Defines a tensor of zeros."""
        declared = self.types[kind]
        count = math.prod(declared.shape)
        self._check(kind, count)
        self._define(id, kind, np.zeros(count, _STORED[declared.dtype]))

    def _check(self, kind: int, count: int) -> None:
        declared = self.types.get(kind)
        if count > _MOST or (declared is not None and count != math.prod(declared.shape)):
            raise ValueError(f"a constant of its module has {count} elements")

    def _define(self, id: int, kind: int, elements: Elements) -> None:
        self._elements[id] = elements
        if kind in self.types:
            self._kinds[id] = self.types[kind]
