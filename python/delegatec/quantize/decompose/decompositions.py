# SPDX-License-Identifier: Apache-2.0
"""Decomposition before observers: every value inside softmax, attention and norms has parameters."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.export import ExportedProgram, default_decompositions
from torch.fx import Node
from torch.nn import functional as F  # noqa: N812

from delegatec.edge.arguments import values_of
from delegatec.quantize.decompose.simpler_operators import SIMPLER
from delegatec.quantize.graph.retracing import retraced
from delegatec.quantize.operators import KINDS

# Key of a node's "custom" metadata: index and name of the composite that the node comes from.
_COMPOSITE: Final = "delegatec_composite"

aten = torch.ops.aten

# Composites that layers and their norms are found by, and those that `edge.legalize` has rules for.
KEPT: Final = frozenset(
    {
        *KINDS,
        *(aten.batch_norm.default, aten._native_batch_norm_legit_no_training.default),
        *(aten._upsample_bilinear2d_aa.vec, aten._upsample_bicubic2d_aa.vec),
    }
)
MASKED: Final = -(2.0**127)
"""A masked score, which observers ignore."""
# Operators whose decompositions by torch cast operands of other dtypes.
_CASTING: Final = (aten.mse_loss.default,)
# Of 2**-15, 1 LSB of int16: smaller exponentials are not representable, and the range is scarce in int8.
_LEAST_EXPONENT: Final = -15 * math.log(2)


def decompose(
    program: ExportedProgram,
    kept: Container[str] = (),
    others: Mapping[OpOverload, Callable[..., Any]] = MappingProxyType({}),
) -> ExportedProgram:
    """Returns a program of operators in the table `KINDS`, and others that stay in float.

    Args:
        program: a program of any ATen operators; it is not changed.
        kept: names of other operators that are not decomposed, such as "aten.softmax" or "aten.softmax.int".
        others: more operators -> functions that compute them.

    Raises:
        DelegatecError: DC134, see `retraced`.
    """
    ids = itertools.count()
    table = dict(_defaults(len(torch._C._dispatch_get_all_op_names())))
    table |= {operator: _of_float32(table[operator]) for operator in _CASTING}
    table |= SIMPLER
    table |= others
    table |= {operator: _marked(function, ids, operator) for operator, function in _COMPOSITES.items()}
    whole = KEPT - SIMPLER.keys() | _of_dynamic_sizes(program)
    for operator in [*table]:
        is_kept = operator in whole
        if is_kept or any(name in kept for name in names_of(operator)):
            del table[operator]
    return retraced(program, table)


@functools.lru_cache(maxsize=1)
def _defaults(_registered: int) -> Mapping[OpOverload, Callable[..., Any]]:
    """Returns torch's decompositions, for which it visits each registered operator.

    Args:
        _registered: how many there are; a library may add some later.
    """
    return MappingProxyType(dict(default_decompositions().items()))  # type: ignore[no-untyped-call]


def _of_dynamic_sizes(program: ExportedProgram) -> set[OpOverload]:
    """Returns the composites of which a call has an operand with a dynamic size that is not a batch.

    Devices that compute with integers alone need static sizes. Others compute whole composites in float, and
    many of them neither sums over a dynamic size nor views of several.
    """
    return {
        node.target
        for node in program.graph.nodes
        if node.target in _COMPOSITES
        and any(not isinstance(size, int) for val in values_of(node) for size in val.shape[1:])
    }


def composite_of(node: Node) -> str | None:
    """Returns the index and the name of the composite that a node comes from, such as "3 aten.softmax"."""
    found: str | None = (node.meta.get("custom") or {}).get(_COMPOSITE)
    return found


def names_of(operator: Any) -> set[str]:
    """Returns the names of an operator: with the overload, and without."""
    name = str(operator)
    return {name, name.rpartition(".")[0]}


def _of_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a decomposition of calls on float32 only: others cast to it, so they would be quantized."""

    @functools.wraps(function)
    def call(x: Tensor, *arguments: Any, **keywords: Any) -> Any:
        return function(x, *arguments, **keywords) if x.dtype is torch.float32 else NotImplemented

    return call


def _marked(function: Callable[..., Any], ids: Iterator[int], operator: OpOverload) -> Callable[..., Any]:
    """Returns the function with its nodes marked as values inside one composite.

    Composites of other dtypes than float32, which is what is quantized, and of empty tensors stay whole.
    """
    name = str(operator).rpartition(".")[0]

    @functools.wraps(function)
    def call(x: Tensor, *arguments: Any, **keywords: Any) -> Any:
        operands = [each for each in (x, *arguments) if isinstance(each, Tensor)]
        is_empty = any(isinstance(size, int) and size == 0 for each in operands for size in each.shape)
        if is_empty or torch.float32 not in (x.dtype, *arguments, *keywords.values()):
            return NotImplemented
        with torch.fx.traceback.annotate({_COMPOSITE: f"{next(ids)} {name}"}):
            return function(x, *arguments, **keywords)

    return call


def _in_dtype(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Returns a function with the dtype of the result as another argument; float32 is quantized unchanged."""

    @functools.wraps(function)
    def call(x: Tensor, *arguments: Any, dtype: torch.dtype | None = None) -> Tensor:
        given = x if dtype is None or x.dtype == torch.float32 else x.to(dtype)
        result = function(given, *arguments)
        return result if dtype is None or result is NotImplemented else result.to(dtype)

    return call


def _softmax(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    return _softmax_of(x, dim, dtype=dtype)


def _log_softmax(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    return _log_softmax_of(x, dim, dtype=dtype)


@_in_dtype
def _softmax_of(x: Tensor, dim: int) -> Tensor:
    exponentials = _exponentials(x, dim)
    return exponentials * torch.reciprocal(torch.sum(exponentials, dim, keepdim=True))


def _exponentials(x: Tensor, dim: int) -> Tensor:
    return torch.exp(torch.clamp_min(x - torch.amax(x, dim, keepdim=True), _LEAST_EXPONENT))


def _softmax_half(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return _softmax(x, dim)


@_in_dtype
def _log_softmax_of(x: Tensor, dim: int) -> Tensor:
    shifted = x - torch.amax(x, dim, keepdim=True)
    exponentials = torch.exp(torch.clamp_min(shifted, _LEAST_EXPONENT))
    return shifted - torch.log(torch.sum(exponentials, dim, keepdim=True))


def _log_softmax_half(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return _log_softmax(x, dim)


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    # scores of empty rows are zero with any factor
    depth = query.shape[-1]
    factor = scale if scale is not None else depth**-0.5 if depth else 1.0
    if enable_gqa:
        repeats = query.shape[-3] // key.shape[-3]
        key, value = (part.repeat_interleave(repeats, -3) for part in (key, value))
    if is_causal:
        attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
    scores = torch.matmul(query * factor, key.transpose(-2, -1))
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        scores, attn_mask = scores + attn_mask, None
    if attn_mask is None:
        return torch.matmul(_softmax(scores, -1), value)
    masked = torch.logical_not(attn_mask)
    # They get the least quantized value of the scores, which may be a score: hence the second mask.
    scores = torch.masked_fill(scores, masked, MASKED)
    kept = torch.masked_fill(_exponentials(scores, -1), masked, 0.0)
    # The largest exponential is 1, if there is one.
    total = torch.clamp_min(torch.sum(kept, -1, keepdim=True), 1.0)
    return torch.matmul(kept * torch.reciprocal(total), value)


def _standardized(x: Tensor, dims: list[int], eps: float) -> Tensor:
    centered = x - torch.mean(x, dims, keepdim=True)
    return centered * _inverse_root(centered, dims, eps)


def _inverse_root(x: Tensor, dims: list[int], eps: float) -> Tensor:
    return torch.rsqrt(torch.mean(x * x, dims, keepdim=True) + eps)


def _scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def _last(shape: Sequence[int]) -> list[int]:
    return list(range(-len(shape), 0))


def _layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    return _scaled(_standardized(x, _last(normalized_shape), eps), weight, bias)


def _rms_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    return _scaled(x * _inverse_root(x, _last(normalized_shape), eps), weight, None)


def _group_norm(
    x: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    grouped = x.reshape(x.shape[0], num_groups, x.shape[1] // num_groups * math.prod(x.shape[2:]))
    shape = [1, x.shape[1], *[1] * (x.dim() - 2)]
    weight, bias = (part if part is None else part.reshape(shape) for part in (weight, bias))
    return _scaled(_standardized(grouped, [-1], eps).reshape(x.shape), weight, bias)


def _instance_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    if not use_input_stats:
        return F.batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    return _group_norm(x, x.shape[1], weight, bias, eps)


@_in_dtype
def _vector_norm(
    x: Tensor, ord: float = 2, dim: Sequence[int] | None = None, keepdim: bool = False
) -> Tensor:
    dims = list(range(x.dim()) if dim is None else dim)
    if ord == 2:
        return torch.sqrt(torch.sum(x * x, dims, keepdim))
    if ord == 1:
        return torch.sum(torch.abs(x), dims, keepdim)
    return NotImplemented  # type: ignore[no-any-return]


_COMPOSITES: Final[dict[OpOverload, Callable[..., Any]]] = {
    aten.softmax.int: _softmax,
    aten._softmax.default: _softmax_half,
    aten._safe_softmax.default: _softmax,
    aten.log_softmax.int: _log_softmax,
    aten._log_softmax.default: _log_softmax_half,
    aten.scaled_dot_product_attention.default: _attention,
    aten.layer_norm.default: _layer_norm,
    aten.rms_norm.default: _rms_norm,
    aten.group_norm.default: _group_norm,
    aten.instance_norm.default: _instance_norm,
    aten.linalg_vector_norm.default: _vector_norm,
}
