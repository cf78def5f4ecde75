# SPDX-License-Identifier: Apache-2.0
"""Matrix products (the runtime's LinearAlgebra). MPSGraph multiplies only matrices of floats.

The products of a float16 element are summed in float32 and rounded once.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from delegatec_schemas.mps_graph import NodeT

from delegatec.backends.mps.reference.run import Run, Semantics, floats, one_dtype, reject, wide

Tensor = torch.Tensor


def _product(run: Run, first: Tensor, second: Tensor, name: str) -> Tensor:
    dtype = floats(name, first, second)
    shapes = f"shapes {list(first.shape)} and {list(second.shape)}"
    if min(first.dim(), second.dim()) < 2 or first.shape[-1] != second.shape[-2]:
        reject(f"{name} of {shapes}")
    batches = run.broadcast(f"{name}'s batches", first[..., 0, 0], second[..., 0, 0])
    run.check_size([*batches, first.shape[-2], second.shape[-1]], name)
    return (wide(first) @ wide(second)).to(dtype)


def _matmul(run: Run, op: Any, _: NodeT) -> None:
    run[op.outputId] = _product(run, run[op.input1Id], run[op.input2Id], "MatMul")


def _addmm(run: Run, op: Any, _: NodeT) -> None:
    bias = run[op.input1Id]
    product = _product(run, run[op.input2Id], run[op.input3Id], "Addmm")
    dtype = one_dtype(product, bias)
    run.broadcast("Addmm's sum", product, bias)
    if op.alpha != 1.0:
        product = product * run.scalar_tensor(op.alpha, dtype)
    if op.beta != 1.0:
        bias = bias * run.scalar_tensor(op.beta, dtype)
    run[op.outputId] = product + bias


SEMANTICS: Final[dict[str, Semantics]] = {"MatMul": _matmul, "Addmm": _addmm}
