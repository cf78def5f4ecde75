# SPDX-License-Identifier: Apache-2.0
"""Products of matrices, and softmax.

Source: XNNPACK's subgraph/batch-matrix-multiply.c and softmax.c.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from delegatec_schemas.xnnpack_graph import DataType, NodeT

from delegatec.backends.xnnpack.flags import FIRST_TRANSPOSED, TRANSPOSED
from delegatec.backends.xnnpack.reference.layers import centered, rows_of
from delegatec.backends.xnnpack.reference.run import Run, Semantics, requantize
from delegatec.backends.xnnpack.reference.tensors import QUANTIZED, reject


def _multiply(run: Run, operation: Any, node: NodeT) -> None:
    first, second = run.operand(int(operation.input1Id)), run.operand(int(operation.input2Id))
    result, flags = run.result(int(operation.outputId)), int(operation.flags)
    one, other = run.elements(first.id), centered(second)
    shapes = f"matrices of the shapes {list(one.shape)} and {list(other.shape)}"
    if min(one.dim(), other.dim()) < 2:
        reject(f"{shapes} are multiplied")
    other = other.mT if flags & TRANSPOSED else other
    transposes = bool(flags & FIRST_TRANSPOSED)
    if (one.mT if transposes else one).shape[-1] != other.shape[-2]:
        reject(f"{shapes} are multiplied")
    try:
        batch = torch.broadcast_shapes(one.shape[:-2], other.shape[:-2])  # type: ignore[no-untyped-call]
    except RuntimeError:
        reject(f"{shapes} are multiplied")
    run.check_size([*batch, (one.mT if transposes else one).shape[-2], other.shape[-1]], f"value {result.id}")

    def product(x: torch.Tensor) -> torch.Tensor:
        return (x.mT if transposes else x) @ other.to(x.dtype)

    if first.data_type in QUANTIZED:
        ratio = torch.tensor(first.one_scale) * second.one_scale / result.one_scale
        sums = product(one.double() - first.one_zero_point)
        run.write(result.id, requantize(sums, ratio, result, node))
    elif first.data_type == DataType.DYNAMIC_INT8:
        assert second.scale is not None
        scale, zero = rows_of(first)
        run.write(result.id, product(one.double() - zero).float() * scale * second.scale)
    else:
        run.write(result.id, product(one.float()))


def _softmax(run: Run, operation: Any, node: NodeT) -> None:
    source = run.operand(int(operation.inputId))
    run.write(int(operation.outputId), source.real().softmax(-1))


SEMANTICS: Final[dict[str, Semantics]] = {"BatchMatrixMultiply": _multiply, "Softmax": _softmax}
