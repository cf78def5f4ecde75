# SPDX-License-Identifier: Apache-2.0
"""Attention in eager mode: its kernels accept operands that are an error, and compute scores in float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class Attention(TorchFunctionMode):
    """Rejects values of another length than the keys, of which eager mode reads memory after the end.

    Attributes:
        scores_fit: whether the products of queries and keys fit in their dtype.
    """

    def __init__(self) -> None:
        super().__init__()
        self.scores_fit = True

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention:
            query, keys, values = args[:3]
            if keys.shape[-2] != values.shape[-2]:
                raise ValueError(f"{keys.shape[-2]} keys and {values.shape[-2]} values")
            self.scores_fit &= _scores_fit(query, keys, bool(kwargs.get("enable_gqa")))
        return func(*args, **kwargs)


def _scores_fit(query: Tensor, keys: Tensor, is_grouped: bool) -> bool:
    if is_grouped:
        keys = keys.repeat_interleave(query.shape[-3] // keys.shape[-3], -3)
    scores = (query.double() @ keys.double().mT).abs().nan_to_num(0.0)
    return not scores.numel() or float(scores.max()) < torch.finfo(query.dtype).max
