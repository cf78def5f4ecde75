# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers, and the parts shared with convolutions: sums of products, by types of operands.

Source: XNNPACK's subgraph/fully-connected.c and its kernels gemm. Sums of quantized values are exact; sums of
floats are float32, in another order than there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from delegatec_schemas.xnnpack_graph import DataType, NodeT

from delegatec.backends.xnnpack.flags import TRANSPOSED
from delegatec.backends.xnnpack.operands import NO_VALUE
from delegatec.backends.xnnpack.reference.run import Run, Semantics, clamp, requantize
from delegatec.backends.xnnpack.reference.tensors import QUANTIZED, Tensor, reject

_INTEGERS: Final = frozenset({DataType.CHANNEL_INT8, DataType.CHANNEL_INT4, DataType.INT8, DataType.UINT8})

Products = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Sums of products of an input and a filter [out, ...]; the last dimension is that of channels."""


def bias_of(run: Run, operation: Any) -> Tensor | None:
    """Returns the bias of a layer, if it has one."""
    return None if int(operation.biasId) == NO_VALUE else run.operand(int(operation.biasId))


def write_sums(
    run: Run, operation: Any, node: NodeT, filter: torch.Tensor, scales: torch.Tensor, sums: Products
) -> None:
    """Writes the result of a layer.

    Args:
        run: the run.
        operation: a layer's table.
        node: its node.
        filter: its elements, or quantized values minus the zero point.
        scales: of its channels, or one; float32.
        sums: of products.
    """
    source, result = run.operand(int(operation.inputId)), run.result(int(operation.outputId))
    kind = run.operand(int(operation.filterId)).data_type
    bias = bias_of(run, operation)
    added = 0 if bias is None else run.elements(bias.id)
    if source.data_type == DataType.DYNAMIC_INT8:
        rows = rows_of(source)
        total = sums(run.elements(source.id).double() - rows[1], filter.double())
        run.write(result.id, clamp(total.float() * rows[0] * scales + added, node))
    elif source.data_type in QUANTIZED:
        quantized_values = run.elements(source.id).double() - source.one_zero_point
        total = sums(quantized_values, filter.double()) + added
        ratio = torch.tensor(source.one_scale) * scales / result.one_scale
        run.write(result.id, requantize(total, ratio, result, node))
    elif kind in _INTEGERS:
        # the runtime scales the bias, too
        run.write(result.id, clamp((sums(source.real(), filter.float()) + added) * scales, node))
    else:
        dtype = source.dtype if source.dtype == torch.float16 else torch.float32
        weights = filter.to(dtype).float()
        offset = added.to(dtype).float() if isinstance(added, torch.Tensor) else 0.0
        run.write(result.id, clamp(sums(source.real(), weights) + offset, node))


def rows_of(source: Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns scale and zero point of rows, with the rank of the tensor."""
    assert source.scale is not None
    assert isinstance(source.zero_point, torch.Tensor)
    assert source.value is not None
    shape = [*source.scale.shape, *[1] * (source.value.dim() - source.scale.dim())]
    return source.scale.reshape(shape), source.zero_point.reshape(shape)


def centered(tensor: Tensor) -> torch.Tensor:
    """Returns the quantized values of a filter minus their zero point, or its floats."""
    assert tensor.value is not None
    if tensor.data_type in QUANTIZED:
        return tensor.value.to(torch.int32) - tensor.one_zero_point
    return tensor.value


def scales_of(tensor: Tensor) -> torch.Tensor:
    """Returns the scales of a filter's channels, or one; 1 if it is not quantized."""
    return torch.ones(()) if tensor.scale is None else tensor.scale


def _fully_connected(run: Run, operation: Any, node: NodeT) -> None:
    filter = run.operand(int(operation.filterId))
    connect(run, operation, node, filter, transposed=bool(int(operation.flags) & TRANSPOSED))


def connect(run: Run, operation: Any, node: NodeT, filter: Tensor, *, transposed: bool) -> None:
    """Computes a fully connected layer.

    Args:
        run: the run.
        operation: its table.
        node: its node.
        filter: [out, in], or [out, 1, 1, in] of a convolution.
        transposed: whether it is [in, out].
    """
    source = run.operand(int(operation.inputId))
    weights = centered(filter)
    weights = weights.flatten(1) if weights.dim() > 2 else weights
    if weights.dim() != 2:
        reject(f"a filter has {weights.dim()} dimensions: value {filter.id}")
    weights = weights.t() if transposed else weights
    shape = run.elements(source.id).shape
    if not shape or shape[-1] != weights.shape[1]:
        reject(f"value {source.id} of shape {list(shape)} and a filter of {list(weights.shape)} do not fit")
    bias = bias_of(run, operation)
    if bias is not None and run.elements(bias.id).numel() != weights.shape[0]:
        reject(f"bias {bias.id} has {run.elements(bias.id).numel()} elements instead of {weights.shape[0]}")
    run.check_size([*shape[:-1], weights.shape[0]], f"value {int(operation.outputId)}")
    if filter.data_type == DataType.GROUP_INT4:
        _grouped(run, operation, node, filter, weights)
    else:
        write_sums(run, operation, node, weights, scales_of(filter), lambda x, w: x @ w.t())


def _grouped(run: Run, operation: Any, node: NodeT, filter: Tensor, weights: torch.Tensor) -> None:
    """Sums each group exactly, and the groups, scaled, in float32."""
    source = run.operand(int(operation.inputId))
    scale, zero = rows_of(source)
    quantized_values = run.elements(source.id).double() - zero
    size = filter.group_size
    assert filter.scale is not None
    groups = quantized_values.reshape(*quantized_values.shape[:-1], -1, size)
    sums = torch.einsum("...gs,ogs->...og", groups, weights.double().reshape(len(weights), -1, size))
    total = (sums.float() * filter.scale).sum(-1) * scale
    bias = bias_of(run, operation)
    added = 0 if bias is None else run.elements(bias.id)
    run.write(int(operation.outputId), clamp(total + added, node))


SEMANTICS: Final[dict[str, Semantics]] = {"FullyConnected": _fully_connected}
