# SPDX-License-Identifier: Apache-2.0
"""Weights multiplied by a scalar per channel while they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

aten = torch.ops.aten


class ScaledTensor(Tensor):
    """A tensor times a scalar per index of the first dimension, computed in float64 and rounded once.

    It has no memory: views of it are of the same kind, a slice of one in one dimension computes its elements,
    and any other operator computes all of them.

    Args:
        source: row-major; of any shape that splits into channels.
        scale: float64, one value per channel.
    """

    source: Tensor
    scale: Tensor

    @staticmethod
    def __new__(cls, source: Tensor, scale: Tensor) -> ScaledTensor:
        """Makes a tensor without memory."""
        made: ScaledTensor = Tensor._make_wrapper_subclass(cls, source.shape, dtype=source.dtype)
        made.source, made.scale = source.computed() if isinstance(source, cls) else source, scale
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Runs an operator on it."""
        if func in (aten.detach.default, aten.view.default):
            return cls(func(args[0].source, *args[1:]), args[0].scale)
        if func is aten.permute.default and args[1][0] == 0 and len(args[0]) == len(args[0].scale):
            # Other elements than those at the address of the first one.
            return cls(func(args[0].source, args[1]).contiguous(), args[0].scale.clone())
        if func is aten.slice.Tensor and args[0].dim() == 1:
            return args[0]._elements(*slice(*args[2:]).indices(args[0].numel())[:2])
        args, kwargs = tree_map_only(cls, cls.computed, (args, kwargs or {}))
        return func(*args, **kwargs)

    def data_ptr(self) -> int:
        """Returns an address that no other tensor has."""
        return self.scale.data_ptr()

    def computed(self) -> Tensor:
        """Returns it with memory."""
        return self._elements(0, self.numel()).view(self.shape)

    def _elements(self, start: int, end: int) -> Tensor:
        width = max(1, self.numel() // len(self.scale))
        rows = slice(start // width, -(-end // width))
        product = self.source.view(-1, width)[rows].double().mul_(self.scale[rows, None])
        return product.to(self.dtype).view(-1)[start - rows.start * width : end - rows.start * width]

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Is saved as a tensor with memory."""
        return self.computed().__reduce_ex__(protocol)  # type: ignore[no-untyped-call]
