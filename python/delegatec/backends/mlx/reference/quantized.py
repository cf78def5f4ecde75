# SPDX-License-Identifier: Apache-2.0
"""Products with, and values of, quantized weights in the affine format."""

from __future__ import annotations

from typing import Any, Final

import torch

from delegatec.backends.mlx.building.packing import BITS, GROUPS, MODE, WORD, unpacked
from delegatec.backends.mlx.reference.layers import matrix_indices
from delegatec.backends.mlx.reference.run import Run, Semantics, promoted, reject, text

Tensor = torch.Tensor


def _weight(run: Run, node: Any) -> Tensor:
    """Returns the dequantized weight, in the dtype of its scales."""
    w, scales, biases = run[node.w], run[node.scales], run.optional(node.biases)
    bits, group = node.bits, node.groupSize
    if text(node.mode) != MODE:
        reject(f"the reference executor has no quantization of the mode {text(node.mode)}")
    if bits not in BITS or group not in GROUPS or biases is None or w.dtype != torch.uint32:
        reject(f"{bits} bits in groups of {group}, in {w.dtype}")
    columns = w.shape[-1] * WORD // bits if w.dim() else 0
    wanted = (*w.shape[:-1], columns // group)
    if w.dim() < 2 or columns % group or not wanted == tuple(scales.shape) == tuple(biases.shape):
        reject(f"scales of {list(scales.shape)} for {columns} columns in groups of {group}")
    scales, biases = promoted(scales, biases)
    run.check_size((*w.shape[:-1], columns))
    # the runtime computes in float32, and may round products of half precision
    values = unpacked(w, bits).view(*scales.shape, group).to(torch.float32)
    found = torch.addcmul(biases.float().unsqueeze(-1), values, scales.float().unsqueeze(-1))
    return found.flatten(-2).to(scales.dtype)


def _dequantize(run: Run, node: Any) -> None:
    if node.dtype is not None or node.globalScale is not None:
        reject("the reference executor has no Dequantize to another dtype, or with a global scale")
    run[node.out] = _weight(run, node)


def _matmul(run: Run, node: Any) -> None:
    x, weight = promoted(run[node.x], _weight(run, node))
    if not x.dtype.is_floating_point:
        reject(f"a QuantizedMatmul of {x.dtype}")
    right = weight.mT if node.transpose else weight
    run[node.out] = (x.float() @ right.float()).to(x.dtype)


def _gather_matmul(run: Run, node: Any) -> None:
    x, weight = promoted(run[node.x], _weight(run, node))
    if not x.dtype.is_floating_point or x.dim() < 2:
        reject(f"a GatherQmm of {x.dtype}, of {x.dim()} dimensions")
    lhs = matrix_indices(x, run.optional(node.lhsIndices))
    rhs = matrix_indices(weight, run.optional(node.rhsIndices))
    lhs, rhs = torch.broadcast_tensors(lhs, rhs)  # type: ignore[no-untyped-call]
    right = weight.mT if node.transpose else weight
    run.check_size((*lhs.shape, max(x.shape[-2:]), max(right.shape[-2:])))
    chosen = right.flatten(0, -3)[rhs]
    run[node.out] = (x.flatten(0, -3)[lhs].float() @ chosen.float()).to(x.dtype)


SEMANTICS: Final[dict[str, Semantics]] = {
    "Dequantize": _dequantize,
    "GatherQmm": _gather_matmul,
    "QuantizedMatmul": _matmul,
}
