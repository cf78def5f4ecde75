# SPDX-License-Identifier: Apache-2.0
"""Norms as the runtime's kernels compute them: variances are E[x^2] - E[x]^2 in float32.

Eager mode is more accurate if the mean is large. Source: measured with the stock runtime of ExecuTorch 1.4.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

from delegatec.program.kernels.norms import LONG_ROW

aten = torch.ops.aten

NORMS: Final = frozenset(
    {aten._native_batch_norm_legit.no_stats_out, aten.native_group_norm.out, aten.native_layer_norm.out}
)


def compute_norm(arguments: Mapping[str, Any]) -> tuple[Tensor, Tensor, Tensor] | None:
    """Returns the results of a norm; None if they are those of eager mode.

    Args:
        arguments: of one of `NORMS`, by name.
    """
    x, affine = arguments["input"], [arguments["weight"], arguments["bias"]]
    rows, dims = x, [dim for dim in range(x.dim()) if dim != 1]
    is_layer = "normalized_shape" in arguments
    if is_layer:
        dims = list(range(x.dim() - len(arguments["normalized_shape"]), x.dim()))
    elif "group" in arguments:
        rows, dims = x.reshape(x.shape[0], arguments["group"], -1), [2]
    is_precise = is_layer and x[(0,) * dims[0]].numel() >= LONG_ROW if x.numel() else True
    if is_precise or x.dtype is not torch.float32:
        return None
    mean = rows.mean(dims, keepdim=True)
    rstd = ((rows * rows).mean(dims, keepdim=True) - mean * mean + arguments["eps"]).rsqrt()
    y = ((rows - mean) * rstd).view(x.shape)
    weight, bias = (
        each if each is None or is_layer else each.view(-1, *[1] * (x.dim() - 2)) for each in affine
    )
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return (y, mean, rstd) if is_layer else (y, mean.squeeze(dims), rstd.squeeze(dims))
