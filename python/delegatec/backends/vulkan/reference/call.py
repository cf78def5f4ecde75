# SPDX-License-Identifier: Apache-2.0
"""The arguments of an operator call, as the runtime decodes them: by position, with a strict type."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import torch
from delegatec_schemas import vulkan_graph as schema
from delegatec_schemas.vulkan_graph import (
    BoolT,
    DoubleT,
    IntListT,
    IntT,
    MemoryLayout,
    NullT,
    SymIntT,
    ValueListT,
)

from delegatec.backends.vulkan.reference.run import Run
from delegatec.backends.vulkan.reference.tensors import Constant, Tensor, reject, text

_T = TypeVar("_T")


class Call:
    """An operator call.

    Args:
        run: the state.
        name: the operator.
        ids: value ids of its arguments.
    """

    def __init__(self, run: Run, name: str, ids: list[int]) -> None:
        self.run = run
        self.name = name
        self.ids = ids

    def __len__(self) -> int:
        return len(self.ids)

    def id(self, index: int) -> int:
        """Returns the value id of an argument; negative indices count from the end."""
        if not -len(self.ids) <= index < len(self.ids):
            reject(f"{self.name} has {len(self.ids)} arguments, and the runtime reads number {index}")
        return self.ids[index]

    def content(self, index: int) -> Any:
        """Returns an argument of any type."""
        return self.run.values[self.id(index)]

    def is_none(self, index: int) -> bool:
        """Whether an argument is null."""
        return isinstance(self.content(index), NullT)

    def is_constant(self, index: int) -> bool:
        """Whether an argument is a constant."""
        return isinstance(self.content(index), Constant)

    def tensor(self, index: int) -> Tensor:
        """Returns a tensor, which must be on the device."""
        return self.run.tensor(self.id(index), f"argument {index} of {self.name}")

    def constant(self, index: int) -> Constant:
        """Returns a constant, which the operator packs."""
        value = self.content(index)
        if not isinstance(value, Constant):
            reject(f"argument {index} of {self.name} is value {self.id(index)}, which is not a constant")
        return value

    def tensor_like(self, index: int, like: Tensor, *, passthrough: bool = True) -> Tensor:
        """Returns a tensor, or a constant packed like another tensor (`prepack_standard_like`)."""
        return self.packed(index, like.storage, like.layout, passthrough=passthrough)

    def packed(
        self,
        index: int,
        storage: str,
        layout: int = MemoryLayout.WIDTH_PACKED,
        *,
        passthrough: bool = False,
    ) -> Tensor:
        """Returns a packed constant; with `passthrough`, also a tensor."""
        if passthrough and isinstance(self.content(index), Tensor):
            return self.tensor(index)
        return self.run.pack(self.constant(index), storage, layout)

    def sizes(self, index: int) -> list[int]:
        """Returns the shape of a tensor or constant."""
        value = self.content(index)
        if not isinstance(value, Tensor | Constant):
            reject(f"argument {index} of {self.name} is not a tensor")
        return value.sizes

    def tensors(self, index: int) -> list[Tensor]:
        """Returns a list of tensors."""
        what = f"an item of argument {index} of {self.name}"
        return [self.run.tensor(id, what) for id in self.list_ids(index)]

    def list_ids(self, index: int) -> list[int]:
        """Returns the value ids of a list."""
        return [int(id) for id in self._of(index, ValueListT).items]

    def scalar(self, index: int) -> float | int:
        """Returns an Int, Double, Bool or SymInt."""
        value = self.content(index)
        if isinstance(value, SymIntT):
            return self.run.symbols[self.id(index)]
        if not isinstance(value, IntT | DoubleT | BoolT):
            reject(f"argument {index} of {self.name} is not a scalar")
        result: float | int = value.value
        return result

    def float32(self, index: int) -> float:
        """Returns a scalar as float32."""
        return as_float32(float(self.scalar(index)))

    def integer(self, index: int, default: int | None = None) -> int:
        """Returns a scalar as an integer; null is the default, if there is one."""
        if default is not None and self.is_none(index):
            return default
        scalar = self.scalar(index)
        if isinstance(scalar, float) and not math.isfinite(scalar):
            reject(f"argument {index} of {self.name} is {scalar}, which is not an integer")
        return int(scalar)

    def strict_int(self, index: int) -> int:
        """Returns an Int."""
        return int(self._of(index, IntT).value)

    def boolean(self, index: int) -> bool:
        """Returns a Bool."""
        return bool(self._of(index, BoolT).value)

    def int_list(self, index: int) -> list[int]:
        """Returns an IntList."""
        return [int(item) for item in self._of(index, IntListT).items]

    def ints(self, index: int) -> list[int]:
        """Returns an IntList, or a list of Int and SymInt."""
        value = self.content(index)
        if isinstance(value, IntListT):
            return self.int_list(index)
        found = []
        for id in self.list_ids(index):
            item = self.run.values[id]
            if isinstance(item, SymIntT):
                found.append(self.run.symbols[id])
            elif isinstance(item, IntT):
                found.append(int(item.value))
            else:
                reject(f"an item of argument {index} of {self.name} is neither Int nor SymInt")
        return found

    def double_list(self, index: int) -> list[float]:
        """Returns a DoubleList."""
        return [float(item) for item in self._of(index, schema.DoubleListT).items]

    def text(self, index: int) -> str:
        """Returns a String."""
        return text(self._of(index, schema.StringT).value)

    def axis(self, index: int, dim: int) -> int:
        """Returns an axis, counted from the start."""
        axis = self.integer(index)
        if not -dim <= axis < dim:
            reject(f"{self.name} along dimension {axis} of a tensor of {dim} dimensions")
        return axis % dim

    def _of(self, index: int, kind: type[_T]) -> Any:
        value = self.content(index)
        if not isinstance(value, kind):
            found = type(value).__name__.removesuffix("T")
            reject(f"argument {index} of {self.name} is {found} instead of {kind.__name__.removesuffix('T')}")
        return value


def as_float32(scalar: float) -> float:
    """Returns a float rounded to float32."""
    if not math.isfinite(scalar):
        return scalar
    return float(torch.tensor(scalar, dtype=torch.float32))


def same_packed(name: str, *tensors: Tensor) -> None:
    """Rejects tensors that pack different dimensions."""
    if len({tensor.packed for tensor in tensors}) > 1:
        reject(f"{name} of {' and '.join(map(str, tensors))}, which pack different dimensions")


def summed(name: str, *tensors: Tensor) -> None:
    """Rejects operands with infinite elements after a sum, which the runtime multiplies by zero."""
    for tensor in tensors:
        if tensor.is_spoiled:
            reject(f"{name} of {tensor}: the runtime adds NaN for infinite elements that fill its texels")


def must_pack(name: str, dimension: int, *tensors: Tensor) -> None:
    """Rejects tensors that do not pack a dimension."""
    for tensor in tensors:
        if tensor.packed != dimension:
            reject(
                f"{name} of {tensor}, which must pack {('the width', 'the height', 'channels')[dimension]}"
            )
