# SPDX-License-Identifier: Apache-2.0
"""Reductions of one dimension to size 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import torch
from delegatec_schemas.tosa_graph import NanMode

Kernel = Callable[..., torch.Tensor]


def _sum(x: torch.Tensor, axis: int) -> torch.Tensor:
    return x.sum(axis, keepdim=True, dtype=x.dtype)


def _product(x: torch.Tensor, axis: int) -> torch.Tensor:
    return x.prod(axis, keepdim=True)


def _extremum(reduce: Callable[..., torch.Tensor], neutral: float) -> Kernel:
    def kernel(x: torch.Tensor, axis: int, nan_mode: int) -> torch.Tensor:
        if nan_mode != NanMode.IGNORE or not x.is_floating_point():
            return reduce(x, axis, True)
        found = reduce(torch.where(x.isnan(), neutral, x), axis, True)
        return torch.where(x.isnan().all(axis, keepdim=True), torch.nan, found).to(x.dtype)

    return kernel


def _argmax(x: torch.Tensor, axis: int, nan_mode: int) -> torch.Tensor:
    if x.is_floating_point():
        x = x.to(torch.float32)
    if nan_mode == NanMode.IGNORE and x.is_floating_point():
        x = torch.where(x.isnan(), -torch.inf, x)
    return x.argmax(axis).to(torch.int32)


def _bools(reduce: Callable[..., torch.Tensor]) -> Kernel:
    return lambda x, axis: reduce(x, axis, keepdim=True)


KERNELS: Final[Mapping[str, Kernel]] = {
    "REDUCE_SUM": _sum,
    "REDUCE_PRODUCT": _product,
    "REDUCE_MAX": _extremum(torch.amax, -torch.inf),
    "REDUCE_MIN": _extremum(torch.amin, torch.inf),
    "REDUCE_ALL": _bools(torch.all),
    "REDUCE_ANY": _bools(torch.any),
    "ARGMAX": _argmax,
}
