# SPDX-License-Identifier: Apache-2.0
"""Normalization and means (the runtime's NormalizationOps and ReduceOps).

Sums of float16 are computed in float32; means, variances and normalized elements are rounded once.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from delegatec_schemas.mps_graph import NodeT

from delegatec.backends.mps.dtypes import FLOATS
from delegatec.backends.mps.reference.run import (
    Run,
    Semantics,
    axis,
    floats,
    ints,
    present,
    reject,
    wide,
)

Tensor = torch.Tensor


def _normalize(
    run: Run,
    name: str,
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: Tensor,
    beta: Tensor,
    epsilon: float,
) -> Tensor:
    dtype = floats(name, x, mean, variance, gamma, beta)
    if run.broadcast(name, x, mean, variance, gamma, beta) != x.shape:
        reject(f"{name} of shape {list(x.shape)} with a weight of shape {list(gamma.shape)}")
    scale = (wide(variance) + epsilon).rsqrt() * wide(gamma)
    return ((wide(x) - wide(mean)) * scale + wide(beta)).to(dtype)


def _batch_norm(run: Run, op: Any, _: NodeT) -> None:
    """Returns the mean as the second result, and no third. Ignores `momentum`."""
    x = run[op.inputId]
    operands = [run[id] for id in (op.meanId, op.varId, op.weightId, op.biasId)]
    if x.dim() < 2 or any(operand.numel() != x.shape[1] for operand in operands):
        shapes = ", ".join(str(list(operand.shape)) for operand in operands)
        reject(f"BatchNorm of shape {list(x.shape)} with operands of shapes {shapes}")
    shape = (1, x.shape[1], *(1,) * (x.dim() - 2))
    mean, variance, gamma, beta = (operand.reshape(shape) for operand in operands)
    run[op.output1Id] = _normalize(run, "BatchNorm", x, mean, variance, gamma, beta, op.epsilon)
    run[op.output2Id] = run[op.meanId]


def _layer_norm(run: Run, op: Any, _: NodeT) -> None:
    """Uses only the length of `normalized_shape`. The third result is the variance."""
    x = run[op.input1Id]
    floats("LayerNorm", x)
    count = len(present(op.normalizedShape, "normalized shape"))
    if not 0 < count <= x.dim():
        reject(f"LayerNorm over {count} of {x.dim()} dimensions")
    axes = tuple(range(x.dim() - count, x.dim()))
    mean = wide(x).mean(axes, keepdim=True).to(x.dtype)
    variance = ((wide(x) - wide(mean)) ** 2).mean(axes, keepdim=True).to(x.dtype)
    run[op.output1Id] = _normalize(
        run, "LayerNorm", x, mean, variance, run[op.weightId], run[op.biasId], op.eps
    )
    run[op.output2Id] = mean
    run[op.output3Id] = variance


def _mean(run: Run, op: Any, _: NodeT) -> None:
    """Returns the operand itself over no dimension; means of integers are truncated."""
    x = run[op.input1Id]
    axes = sorted({axis(dim, x.dim(), "Mean") for dim in ints(op.dims)})
    if x.dtype == torch.bool:
        reject("Mean of bool")
    if not axes:
        run[op.outputId] = x
    elif x.dtype in FLOATS:
        run[op.outputId] = wide(x).mean(axes, keepdim=op.keepDims).to(x.dtype)
    else:
        count = torch.Size(x.shape[dim] for dim in axes).numel()
        total = x.sum(axes, keepdim=op.keepDims)
        run[op.outputId] = torch.div(total, count, rounding_mode="trunc").to(x.dtype)


SEMANTICS: Final[dict[str, Semantics]] = {
    "BatchNorm": _batch_norm,
    "LayerNorm": _layer_norm,
    "Mean": _mean,
}
