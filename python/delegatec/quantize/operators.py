# SPDX-License-Identifier: Apache-2.0
"""The operators that are quantized, by the relation between the parameters of their operands and results.

They are those of a program that `decompositions.decompose` returns.
"""

from __future__ import annotations

import enum
import math
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.quantize.loops.order import BORDERS

aten = torch.ops.aten


class Kind(enum.Enum):
    """The relation between the parameters of an operator's float operands and results."""

    LAYER = "activation, weight and bias; the bias has the product of their scales"
    PRODUCT = "two operands, an accumulator, and a result with its own range"
    SUM = "operands and a result with their own ranges; a bounded activation after it is fused"
    OWN = "operands and a result with their own ranges"
    SHARED = "all operands and the result have the same parameters"
    COMPARED = "operands with the same parameters; the result is a bool"
    PRODUCED = "a result from integers or constants, with its own range"


_LAYERS: Final = (
    *(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default),
    *(aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input),
    *(aten.convolution.default, aten.linear.default, aten.addmm.default),
)
_PRODUCTS: Final = (aten.mm.default, aten.bmm.default)
_SUMS: Final = (
    aten.add.Tensor,
    aten.add.Scalar,
    aten.sub.Tensor,
    aten.sub.Scalar,
    aten.mul.Tensor,
    aten.mul.Scalar,
)
# Bounds that a result's range expresses: fused with the operator before them.
BOUNDS: Final = frozenset(
    {
        *(aten.relu.default, aten.relu6.default, aten.hardtanh.default),
        *(aten.clamp.default, aten.clamp_min.default, aten.clamp_max.default),
    }
)
_OWN: Final = (
    *BOUNDS,
    *(aten.div.Tensor, aten.div.Scalar, aten.rsub.Scalar, aten.pow.Tensor_Scalar, aten.pow.Scalar),
    *(aten.abs.default, aten.neg.default, aten.sign.default),
    *(aten.floor.default, aten.ceil.default, aten.round.default, aten.trunc.default),
    *(aten.exp.default, aten.exp2.default, aten.expm1.default),
    *(aten.log.default, aten.log2.default, aten.log10.default, aten.log1p.default),
    *(aten.logit.default, aten.sinc.default, aten.special_entr.default, aten.special_log_ndtr.default),
    *(aten.sqrt.default, aten.rsqrt.default, aten.reciprocal.default),
    *(aten.sin.default, aten.cos.default, aten.tan.default, aten.sinh.default, aten.cosh.default),
    *(aten.asin.default, aten.acos.default, aten.atan.default),
    *(aten.asinh.default, aten.acosh.default, aten.atanh.default),
    *(aten.tanh.default, aten.sigmoid.default, aten.erf.default, aten.erfinv.default),
    *(aten.gelu.default, aten.silu.default, aten.mish.default, aten.elu.default, aten.celu.default),
    *(aten.selu.default, aten.leaky_relu.default, aten.softplus.default, aten.log_sigmoid.default),
    *(aten.hardswish.default, aten.hardsigmoid.default, aten.hardshrink.default, aten.softshrink.default),
    *(aten.mean.default, aten.mean.dim, aten.sum.default, aten.sum.dim_IntList, aten.prelu.default),
    *(aten.cumsum.default, aten.prod.default, aten.prod.dim_int),
)
_SHARED: Final = (
    *(aten.cat.default, aten.minimum.default, aten.maximum.default, aten.where.self),
    *(aten.max_pool1d.default, aten.max_pool2d.default, aten.max_pool3d.default),
    *(aten.max_pool2d_with_indices.default, aten.max_pool3d_with_indices.default),
    *(aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default),
    *(aten.avg_pool1d.default, aten.avg_pool2d.default, aten.avg_pool3d.default),
    *(aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default),
    *(aten.amax.default, aten.amin.default, aten.max.default, aten.min.default, aten.max.dim, aten.min.dim),
    *(aten.topk.default, aten.sort.default, aten.sort.stable),
    *(aten.view.default, aten.permute.default, aten.squeeze.dims, aten.unsqueeze.default),
    *(aten.squeeze.dim, aten.squeeze.default, aten.transpose.int, aten.t.default),
    *(aten.expand.default, aten.repeat.default, aten.clone.default, aten.alias.default, aten.detach.default),
    *(aten.slice.Tensor, aten.select.int, aten.as_strided.default, aten.split_with_sizes.default),
    *(aten.index.Tensor, aten._unsafe_index.Tensor, aten.index_select.default, aten.gather.default),
    *(aten.embedding.default, aten.index_put.default, aten.scatter.src, aten.scatter.value),
    *(aten.slice_scatter.default, aten.select_scatter.default),
    *(aten.masked_fill.Scalar, aten.constant_pad_nd.default, aten.flip.default),
    *(aten.pixel_shuffle.default, aten.pixel_unshuffle.default),
    *(aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default),
    *(aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default),
    *(aten.upsample_nearest1d.vec, aten.upsample_nearest2d.vec, aten.upsample_nearest3d.vec),
    *(aten.upsample_bilinear2d.vec, aten.upsample_linear1d.vec, aten.upsample_trilinear3d.vec),
    *(aten.tril.default, aten.triu.default, aten.diagonal.default),
    *BORDERS,
)
_COMPARED: Final = (
    *(aten.eq.Tensor, aten.ne.Tensor, aten.lt.Tensor, aten.le.Tensor, aten.gt.Tensor, aten.ge.Tensor),
    *(aten.eq.Scalar, aten.ne.Scalar, aten.lt.Scalar, aten.le.Scalar, aten.gt.Scalar, aten.ge.Scalar),
    *(aten.argmax.default, aten.argmin.default),
)
_PRODUCED: Final = (
    aten._to_copy.default,
    aten.to.dtype,
    aten.full_like.default,
    aten.zeros_like.default,
    aten.ones_like.default,
)

_GROUPS: Final = {
    Kind.LAYER: _LAYERS,
    Kind.PRODUCT: _PRODUCTS,
    Kind.SUM: _SUMS,
    Kind.OWN: _OWN,
    Kind.SHARED: _SHARED,
    Kind.COMPARED: _COMPARED,
    Kind.PRODUCED: _PRODUCED,
}
KINDS: Final[dict[Any, Kind]] = {
    operator: kind for kind, operators in _GROUPS.items() for operator in operators
}
# Averages of a window, which has the range of their operand.
_AVERAGES: Final = frozenset({aten.avg_pool2d.default, aten.avg_pool3d.default})
# Operators after which a bounded activation is fused.
ACCUMULATES: Final = frozenset({Kind.LAYER, Kind.PRODUCT, Kind.SUM})
TRANSPOSED: Final = frozenset(_LAYERS[3:6])


def kind_of(node: Node) -> Kind | None:
    """Returns the kind of a call, for any dtypes; None for other nodes and operators."""
    kind = KINDS.get(node.target) if node.op == "call_function" else None
    return Kind.OWN if node.target in _AVERAGES and _is_divided(node) else kind


def _is_divided(node: Node) -> bool:
    """Whether an average has a divisor that is not the number of elements: it may be out of their range."""
    bound = bind(node)
    kernel, spatial = bound["kernel_size"], 3 if node.target is aten.avg_pool3d.default else 2
    elements = math.prod(kernel) if len(kernel) == spatial else kernel[0] ** spatial
    return bound["divisor_override"] not in (None, elements)
