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

    def id(self, place: int) -> int:
        """Returns the value id of an argument; negative indices count from the end."""
        if not -len(self.ids) <= place < len(self.ids):
            reject(f"{self.name} has {len(self.ids)} arguments, and the runtime reads number {place}")
        return self.ids[place]

    def content(self, place: int) -> Any:
        """Returns an argument of any type."""
        return self.run.values[self.id(place)]

    def is_none(self, place: int) -> bool:
        """Whether an argument is null."""
        return isinstance(self.content(place), NullT)

    def is_constant(self, place: int) -> bool:
        """Whether an argument is a constant."""
        return isinstance(self.content(place), Constant)

    def tensor(self, place: int) -> Tensor:
        """Returns a tensor, which must be on the device."""
        return self.run.tensor(self.id(place), f"argument {place} of {self.name}")

    def constant(self, place: int) -> Constant:
        """Returns a constant, which the operator packs."""
        value = self.content(place)
        if not isinstance(value, Constant):
            reject(f"argument {place} of {self.name} is value {self.id(place)}, which is not a constant")
        return value

    def tensor_like(self, place: int, like: Tensor, *, passthrough: bool = True) -> Tensor:
        """Returns a tensor, or a constant packed like another tensor (`prepack_standard_like`)."""
        return self.packed(place, like.storage, like.layout, passthrough=passthrough)

    def packed(
        self,
        place: int,
        storage: str,
        layout: int = MemoryLayout.WIDTH_PACKED,
        *,
        passthrough: bool = False,
    ) -> Tensor:
        """Returns a packed constant; with `passthrough`, also a tensor."""
        if passthrough and isinstance(self.content(place), Tensor):
            return self.tensor(place)
        return self.run.pack(self.constant(place), storage, layout)

    def sizes(self, place: int) -> list[int]:
        """Returns the shape of a tensor or constant."""
        value = self.content(place)
        if not isinstance(value, Tensor | Constant):
            reject(f"argument {place} of {self.name} is not a tensor")
        return value.sizes

    def tensors(self, place: int) -> list[Tensor]:
        """Returns a list of tensors."""
        what = f"an item of argument {place} of {self.name}"
        return [self.run.tensor(id, what) for id in self.list_ids(place)]

    def list_ids(self, place: int) -> list[int]:
        """Returns the value ids of a list."""
        return [int(id) for id in self._of(place, ValueListT).items]

    def number(self, place: int) -> float | int:
        """Returns an Int, Double, Bool or SymInt."""
        value = self.content(place)
        if isinstance(value, SymIntT):
            return self.run.symbols[self.id(place)]
        if not isinstance(value, IntT | DoubleT | BoolT):
            reject(f"argument {place} of {self.name} is not a number")
        result: float | int = value.value
        return result

    def float32(self, place: int) -> float:
        """Returns a scalar as float32."""
        return as_float32(float(self.number(place)))

    def integer(self, place: int, default: int | None = None) -> int:
        """Returns a scalar as an integer; null is the default, if there is one."""
        if default is not None and self.is_none(place):
            return default
        number = self.number(place)
        if isinstance(number, float) and not math.isfinite(number):
            reject(f"argument {place} of {self.name} is {number}, which is not an integer")
        return int(number)

    def strict_int(self, place: int) -> int:
        """Returns an Int."""
        return int(self._of(place, IntT).value)

    def boolean(self, place: int) -> bool:
        """Returns a Bool."""
        return bool(self._of(place, BoolT).value)

    def int_list(self, place: int) -> list[int]:
        """Returns an IntList."""
        return [int(item) for item in self._of(place, IntListT).items]

    def ints(self, place: int) -> list[int]:
        """Returns an IntList, or a list of Int and SymInt."""
        value = self.content(place)
        if isinstance(value, IntListT):
            return self.int_list(place)
        found = []
        for id in self.list_ids(place):
            item = self.run.values[id]
            if isinstance(item, SymIntT):
                found.append(self.run.symbols[id])
            elif isinstance(item, IntT):
                found.append(int(item.value))
            else:
                reject(f"an item of argument {place} of {self.name} is neither Int nor SymInt")
        return found

    def double_list(self, place: int) -> list[float]:
        """Returns a DoubleList."""
        return [float(item) for item in self._of(place, schema.DoubleListT).items]

    def text(self, place: int) -> str:
        """Returns a String."""
        return text(self._of(place, schema.StringT).value)

    def axis(self, place: int, dim: int) -> int:
        """Returns an axis, counted from the start."""
        axis = self.integer(place)
        if not -dim <= axis < dim:
            reject(f"{self.name} along dimension {axis} of a tensor of {dim} dimensions")
        return axis % dim

    def _of(self, place: int, kind: type[_T]) -> Any:
        value = self.content(place)
        if not isinstance(value, kind):
            found = type(value).__name__.removesuffix("T")
            reject(f"argument {place} of {self.name} is {found} instead of {kind.__name__.removesuffix('T')}")
        return value


def as_float32(number: float) -> float:
    """Returns a float rounded to float32."""
    if not math.isfinite(number):
        return number
    return float(torch.tensor(number, dtype=torch.float32))


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
