# SPDX-License-Identifier: Apache-2.0
"""How far results may be from eager mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from tests.operators.catalogue import overload
from tests.operators.sample import Sample

Tolerances = Mapping[torch.dtype, tuple[float, float]]
"""Absolute and relative, by dtype; the absolute one grows with the largest element of a result above 1."""

ROUNDED: Final[Tolerances] = {
    torch.float16: (4e-3, 4e-3),
    torch.bfloat16: (3e-2, 3e-2),
    torch.float32: (2e-6, 1e-5),
    torch.float64: (1e-9, 1e-9),
}
"""Two roundings of each dtype's own, with room for sums of a few terms."""

# Results that are not a function of the arguments: only shape and dtype are compared.
_ARBITRARY: Final = frozenset({"empty.memory_format", "rand.default", "randn.default"})

# Eager mode computes in fixed point, and the last digit of a byte may differ.
_BYTES: Final = frozenset({"_upsample_bilinear2d_aa.default", "upsample_bilinear2d.vec"})


def difference(
    name: str, sample: Sample, i: int, result: Tensor, wanted: Tensor, tolerances: Tolerances = ROUNDED
) -> str:
    """Returns how a result differs from eager mode, or "".

    Args:
        name: the operator.
        sample: its arguments.
        i: index of the result.
        result: what was computed.
        wanted: the result in eager mode.
        tolerances: by dtype.
    """
    if result.shape != wanted.shape:
        return f"{list(result.shape)}, in eager mode {list(wanted.shape)}"
    if wanted.numel() == 0:
        return ""  # its dtype differs in eager mode and in torch.export
    if result.dtype != wanted.dtype:
        return f"{result.dtype}, in eager mode {wanted.dtype}"
    if name in _ARBITRARY or _is_close(name, result, wanted, tolerances):
        return ""
    # Eager mode may be inexact: by its rounding of ties, or by NaN for infinity.
    if wanted.is_floating_point() and _is_close(
        name, result, _exact(name, sample)[i].to(wanted.dtype), tolerances
    ):
        return ""
    return f"{result.flatten()[:6].tolist()}, in eager mode {wanted.flatten()[:6].tolist()}"


def _is_close(name: str, result: Tensor, wanted: Tensor, tolerances: Tolerances) -> bool:
    dtype = wanted.dtype
    if not dtype.is_floating_point:
        allowed = 1 if name in _BYTES and dtype is torch.uint8 else 0
        return bool((result.to(torch.float64) - wanted.to(torch.float64)).abs().max() <= allowed) and (
            allowed > 0 or torch.equal(result, wanted)
        )
    absolute, relative = tolerances[dtype]
    size = float(wanted[wanted.isfinite()].abs().double().max()) if wanted.isfinite().any() else 1.0
    return torch.allclose(result, wanted, atol=absolute * max(1.0, size), rtol=relative, equal_nan=True)


def _exact(name: str, sample: Sample) -> list[Tensor]:
    """The results of a call in float64."""

    def widen(value: Any) -> Any:
        is_fraction = isinstance(value, Tensor) and value.is_floating_point()
        return value.double() if is_fraction else value

    args, kwargs = pytree.tree_map(widen, (sample.args, sample.kwargs))
    kwargs.pop("dtype", None)
    return pytree.tree_leaves(overload(name)(*args, **kwargs))
