# SPDX-License-Identifier: Apache-2.0
"""Activations (the runtime's ActivationOps, and NormCdf of its UnaryOps)."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from delegatec_schemas.mps_graph import NodeT

from delegatec.backends.mps.reference.run import Run, Semantics, axis, floats, reject, wide


def _hard_tanh(run: Run, op: Any, _: NodeT) -> None:
    """Two comparisons and selections: NaN stays, and the upper bound takes precedence over the lower."""
    x = run[op.input1Id]
    low, high = (run.scalar_tensor(value, x.dtype) for value in (op.minValue, op.maxValue))
    run[op.outputId] = torch.where(x > high, high, torch.where(x < low, low, x))


def _gelu(run: Run, op: Any, _: NodeT) -> None:
    """x * (1 + erf(x / sqrt 2)) / 2, or with "tanh" x * tanh(x), each operation rounded."""
    x = run[op.input1Id]
    dtype = floats("Gelu", x)
    if op.approximate is None:
        reject("Gelu without a name of the approximation")
    if op.approximate == b"tanh":
        run[op.outputId] = wide(x).tanh().to(dtype) * x
        return
    half, one, root = (run.scalar_tensor(value, dtype) for value in (0.5, 1.0, math.sqrt(0.5)))
    run[op.outputId] = (wide(x * root).erf().to(dtype) + one) * half * x


def _leaky_relu(run: Run, op: Any, _: NodeT) -> None:
    x = run[op.input1Id]
    dtype = floats("LeakyRelu", x)
    run[op.outputId] = torch.nn.functional.leaky_relu(wide(x), op.negativeSlope).to(dtype)


def _softmax(logarithm: bool) -> Semantics:
    def apply(run: Run, op: Any, _: NodeT) -> None:
        if op.halfToFloat:
            reject("softmax from float16 to float32")
        x = run[op.input1Id]
        dtype = floats("Softmax", x)
        result = wide(x).softmax(axis(op.dim, x.dim(), "Softmax")).to(dtype)
        run[op.outputId] = wide(result).log().to(dtype) if logarithm else result

    return apply


SEMANTICS: Final[dict[str, Semantics]] = {
    "HardTanh": _hard_tanh,
    "Gelu": _gelu,
    "LeakyRelu": _leaky_relu,
    "Softmax": _softmax(logarithm=False),
    "LogSoftmax": _softmax(logarithm=True),
}
