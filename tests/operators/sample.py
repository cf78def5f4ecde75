# SPDX-License-Identifier: Apache-2.0
"""Arguments of operators, and their generators by dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

DTYPES: Final = (
    *(torch.float32, torch.float16, torch.bfloat16, torch.float64),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
)


@dataclass(frozen=True)
class Sample:
    """Arguments of one call. Tensors among them become inputs of the program; the rest is part of it."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [_text(value) for value in self.args]
        return ", ".join(parts + [f"{key}={_text(value)}" for key, value in self.kwargs.items()])

    @property
    def is_extreme(self) -> bool:
        """Whether a tensor has NaN, infinities, or integers that float32 does not represent."""
        return any(
            not bool((leaf.double().abs() <= 1 << 24).all())
            for leaf in self._tensors()
            if not leaf.is_complex()
        )

    @property
    def has_tensors(self) -> bool:
        """Whether a tensor is among the arguments."""
        return bool(self._tensors())

    def _tensors(self) -> list[Tensor]:
        return [leaf for leaf in pytree.tree_leaves((self.args, self.kwargs)) if isinstance(leaf, Tensor)]


class Maker:
    """Makes tensors of one dtype, the same at each run."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self._random = torch.Generator().manual_seed(7)

    def __call__(
        self, *sizes: int, low: float = -4, high: float = 4, dtype: torch.dtype | None = None
    ) -> Tensor:
        """Values between two bounds: fractions, integers (not below zero if unsigned), or bools."""
        dtype = dtype or self.dtype
        if dtype is torch.bool:
            return torch.rand(sizes, generator=self._random) > 0.5
        uniform = torch.rand(sizes, generator=self._random, dtype=torch.float64)
        low = max(low, 0) if dtype is torch.uint8 else low
        if dtype.is_floating_point:
            return (low + (high - low) * uniform).to(dtype)
        return (low + (high - low + 1) * uniform).floor().clamp(low, high).to(dtype)

    def distinct(self, *sizes: int) -> Tensor:
        """Returns distinct values, for operators that return indices."""
        count = torch.Size(sizes).numel()
        order = torch.randperm(count, generator=self._random)
        return (
            (order - (0 if self.dtype in (torch.uint8, torch.bool) else count // 2))
            .reshape(sizes)
            .to(self.dtype)
        )

    def ends(self) -> Tensor:
        """NaN, infinities, zeros of both signs; the smallest and largest integers."""
        if self.dtype is torch.bool:
            return torch.tensor([False, True])
        if self.dtype.is_floating_point:
            return torch.tensor(
                [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1, -1], dtype=self.dtype
            )
        info = torch.iinfo(self.dtype)
        return torch.tensor([info.min, info.max, 0, 1, info.max - 1], dtype=self.dtype)


Samples = Callable[[Maker], Iterable[Sample]]


def call(*args: Any, **kwargs: Any) -> Sample:
    """The arguments of one call."""
    return Sample(args, kwargs)


def turned(tensor: Tensor) -> Tensor:
    """The same shape, in memory with the first and the last dimension exchanged."""
    return tensor.transpose(0, -1).contiguous().transpose(0, -1)


def channels_last(tensor: Tensor) -> Tensor:
    """The same images, channels last in memory."""
    return tensor.contiguous(memory_format=torch.channels_last)


def _text(value: Any) -> str:
    if isinstance(value, Tensor):
        strided = "" if value.is_contiguous() else " strided"
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}{strided}"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(_text(item) for item in value)}]"
    return str(value)
