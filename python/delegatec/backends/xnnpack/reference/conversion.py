# SPDX-License-Identifier: Apache-2.0
"""Conversions between types, and the dynamic quantization of rows.

Source: XNNPACK's subgraph/unary.c, its kernels vcvt, and xnnpack/quantization.h for rows.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from delegatec_schemas.xnnpack_graph import DataType, NodeT

from delegatec.backends.xnnpack.reference.run import Run, Semantics, quantize
from delegatec.backends.xnnpack.reference.tensors import QUANTIZED, Tensor, reject
from delegatec.backends.xnnpack.reference.unary import scaled


def _convert(run: Run, operation: Any, node: NodeT) -> None:
    source, result = run.operand(int(operation.inputId)), run.result(int(operation.outputId))
    if result.data_type == DataType.DYNAMIC_INT8:
        _rows(run, source, result)
    elif result.data_type in QUANTIZED:
        run.write(result.id, _to_quantized(run, source, result))
    elif result.data_type == DataType.INT32:
        limits = torch.iinfo(torch.int32)
        # the highest float32 below 2^31
        bounded = source.real().double().nan_to_num(nan=0.0).round().clamp(limits.min, limits.max - 127)
        run.write(
            result.id,
            bounded if source.is_float or source.data_type in QUANTIZED else run.elements(source.id),
        )
    elif source.data_type == DataType.INT8 and result.data_type == DataType.FLOAT16:
        # the kernel rounds the scale, too
        centered = run.elements(source.id).float() - source.one_zero_point
        run.write(result.id, centered * torch.tensor(source.one_scale).half().float())
    else:
        run.write(result.id, source.real())


def _to_quantized(run: Run, source: Tensor, result: Tensor) -> torch.Tensor:
    if source.data_type == result.data_type:
        quantized_values = run.elements(source.id).to(torch.int32) - source.one_zero_point
        return scaled(quantized_values, torch.tensor(source.one_scale) / result.one_scale, result)
    if source.data_type in QUANTIZED or (source.data_type, result.data_type) == (
        DataType.FLOAT16,
        DataType.UINT8,
    ):
        return quantize(source.real(), result)
    inverse = 1 / torch.tensor(result.one_scale)
    if source.data_type == DataType.FLOAT16:
        inverse = inverse.half().float()
    zero = result.one_zero_point
    bounded = (source.real() * inverse).clamp(result.least - zero, result.most - zero)
    return bounded.nan_to_num(nan=float(result.least - zero)).round() + zero


def _rows(run: Run, source: Tensor, result: Tensor) -> None:
    """Quantizes each row to int8, with its minimum, its maximum and 0 in range."""
    x = source.real()
    if not 0 <= result.row_dims <= x.dim():
        reject(f"rows of {result.row_dims} dimensions of value {source.id}, which has {x.dim()}")
    shape = x.shape[: x.dim() - result.row_dims]
    rows = x.reshape(*shape, -1)
    if not rows.numel():
        reject(f"value {source.id} has no elements, so that its rows have no range")
    least, most = rows.amin(-1).clamp(max=0), rows.amax(-1).clamp(min=0)
    inverse = torch.where(least == most, 1.0, 255 / (most - least))
    low, high = least * inverse, most * inverse
    zero = torch.where((low - 128) + (high + 127) > 0, -128 - low, 127 - high).clamp(-128, 127).round()
    # the factor is rounded in float16, the scale is not
    factor = inverse.half().float() if source.data_type == DataType.FLOAT16 else inverse
    quantized_values = (rows * factor[..., None]).clamp(-128 - zero[..., None], 127 - zero[..., None]).round()
    result.scale, result.zero_point = 1 / inverse, zero.to(torch.int32)
    run.write(result.id, (quantized_values + zero[..., None]).reshape(x.shape))


SEMANTICS: Final[dict[str, Semantics]] = {"Convert": _convert}
