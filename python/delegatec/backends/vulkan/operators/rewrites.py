# SPDX-License-Identifier: Apache-2.0
"""Calls that the runtime lacks, or computes wrongly, by calls that it has.

Rules that any target can use are in `edge/legalize/rules`; those here know the runtime.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.vulkan.dtypes import FLOATS
from delegatec.edge.arguments import bind, dtype_of, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import operand_dtypes, result_dtypes
from delegatec.edge.legalize.rule import Rewrite, Rewrites, Rule, rewrites
from delegatec.edge.legalize.rules import REWRITES as SHARED
from delegatec.edge.legalize.rules.pointwise import pointwise
from delegatec.edge.legalize.rules.reductions import reduced_dims
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten

# Abramowitz and Stegun, 7.1.26: erf(x) = 1 - t (a1 + t (a2 + ...)) exp(-x^2) with t = 1 / (1 + p x), for
# x >= 0, to 1.5e-7.
_ERF_P: Final = 0.3275911
_ERF: Final = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


def _compared(compare: Callable[..., Value]) -> Rule:
    """Returns a rule for a comparison in the dtype that the operands are promoted to."""

    def rule(builder: Builder, node: Node) -> Node:
        first, *others = list(bind(node).values())[:2]
        x = value_of(builder, first)
        operands = [value_of(builder, each, x.dtype) if isinstance(each, Node) else each for each in others]
        return compare(x, *operands).node

    return rule


def _equal(x: Value, y: Any) -> Value:
    """Compares twice: the runtime's equality of floats holds up to a distance of 1e-5."""
    return ~(x ^ y) if x.dtype == torch.bool else x.le(y) & x.ge(y)


def _different(x: Value, y: Any) -> Value:
    return ~_equal(x, y)


def _maximum(x: Value, y: Value) -> Value:
    return -_negative(x).minimum(_negative(y)) if x.dtype.is_floating_point else 0 - (0 - x).minimum(0 - y)


def _negative(x: Value) -> Value:
    return -x


def _reciprocal(x: Value) -> Value:
    return Value(x.builder, x.builder.constant(torch.ones(1, dtype=x.dtype))) / x


def _erf(x: Value) -> Value:
    size = x.abs()
    t = _reciprocal(size * _ERF_P + 1.0)
    series = t * _ERF[-1] + _ERF[-2]
    for factor in reversed(_ERF[:-2]):
        series = series * t + factor
    magnitude = 1.0 - series * t * (-(x * x)).exp()
    return x.lt(0.0).where(-magnitude, magnitude)


def _gelu(builder: Builder, node: Node) -> Node | None:
    bound = bind(node)
    if bound["approximate"] != "none":
        return None
    x = value_of(builder, bound["self"])
    return (x * 0.5 * (_erf(x * math.sqrt(0.5)) + 1.0)).node


def _truncated(x: Value) -> Value:
    return x.lt(0.0).where(-(-x).floor(), x.floor())


def _sign(x: Value) -> Value:
    return x.gt(0.0).to(x.dtype) - x.lt(0.0).to(x.dtype)


def _select_bools(builder: Builder, node: Node) -> Node | None:
    if dtype_of(node) != torch.bool:
        return None
    condition, one, other = (value_of(builder, each) for each in bind(node).values())
    return ((condition & one) | (~condition & other)).node


def _of_rank_one(builder: Builder, node: Node) -> Node | None:
    """Computes on one element instead of none."""
    if shape_of(node):
        return None
    bound = bind(node)
    operands = {
        name: value_of(builder, each).view(1).node for name, each in bound.items() if isinstance(each, Node)
    }
    result = builder.call(node.target, *{**bound, **operands}.values())  # type: ignore[arg-type]
    return Value(builder, result).view().node


# ---- reductions ------------------------------------------------------------------------------------------


def _kept(builder: Builder, node: Node) -> Node | None:
    """Keeps reduced dimensions, then drops them."""
    bound = bind(node)
    if bound["keepdim"]:
        return None
    dims = reduced_dims(node)
    reduced = builder.call(node.target, bound["self"], dims, True)  # type: ignore[arg-type]
    return Value(builder, reduced).view(*shape_of(node)).node


def _rows(builder: Builder, node: Node) -> Node | None:
    """Joins the reduced dimensions to rows, and reduces these."""
    x, dims = value_of(builder, bind(node)["self"], dtype_of(node)), reduced_dims(node)
    if not x.shape:
        return x.node
    kept = [dim for dim in range(x.rank) if dim not in dims]
    count = math.prod(x.shape[dim] for dim in dims)
    rows = x.permute(*kept, *dims).view(x.numel // count, count)
    target: Any = _REDUCTIONS[node.target]
    return Value(builder, builder.call(target, rows.node, [1], True)).view(*shape_of(node)).node


_REDUCTIONS: Final[dict[Any, Any]] = {
    aten.mean.dim: aten.mean.dim,
    aten.mean.default: aten.mean.dim,
    aten.sum.dim_IntList: aten.sum.dim_IntList,
    aten.amax.default: aten.amax.default,
    aten.max.default: aten.amax.default,
    aten.amin.default: aten.amin.default,
    aten.min.default: aten.amin.default,
}


def _position(builder: Builder, node: Node) -> Node | None:
    """Moves the searched dimension to the end."""
    bound = bind(node)
    x, dim = value_of(builder, bound["self"]), bound["dim"]
    if dim is None or not x.shape:
        moved = x.view(x.numel)
    else:
        dim = positive(dim, x.rank)
        moved = x.permute(*(each for each in range(x.rank) if each != dim), dim)
    found = builder.call(node.target, moved.node, -1, True)  # type: ignore[arg-type]
    return Value(builder, found).view(*shape_of(node)).node


# ---- layers ----------------------------------------------------------------------------------------------


def _linear(builder: Builder, node: Node) -> Node | None:
    """Joins the dimensions before the last."""
    bound = bind(node)
    x = value_of(builder, bound["input"])
    if x.rank <= 3:
        return None
    rows = x.view(x.numel // x.shape[-1], x.shape[-1])
    product = builder.call(aten.linear.default, rows.node, bound["weight"], bound["bias"])
    return Value(builder, product).view(*shape_of(node)).node


def _variable_linear(builder: Builder, node: Node) -> Node | None:
    """Multiplies by a weight that is not a constant."""
    bound = bind(node)
    x, weight = value_of(builder, bound["input"]), value_of(builder, bound["weight"])
    if weight.rank != 2:
        return None
    rows = x.view(x.numel // x.shape[-1], x.shape[-1])
    product = Value(builder, builder.call(aten.mm.default, rows.node, weight.permute(1, 0).node))
    if bound["bias"] is not None:
        product = product + value_of(builder, bound["bias"])
    return product.view(*shape_of(node)).node


def _layer_norm(builder: Builder, node: Node) -> Any:
    """Joins the normalized dimensions; absent weights are ones, absent biases zeros."""
    bound = bind(node)
    x, count = value_of(builder, bound["input"]), math.prod(bound["normalized_shape"])
    if len(bound["normalized_shape"]) == 1 and None not in (bound["weight"], bound["bias"]):
        return None
    results = builder.call(
        aten.native_layer_norm.default,
        x.view(x.numel // count, count).node,
        [count],
        _parameter(builder, bound["weight"], count, 1.0, x.dtype),
        _parameter(builder, bound["bias"], count, 0.0, x.dtype),
        bound["eps"],
    )
    return _results(builder, node, results)


def _group_norm(builder: Builder, node: Node) -> Any:
    """Views as images; absent weights are ones, absent biases zeros."""
    bound = bind(node)
    x = value_of(builder, bound["input"])
    channels = x.shape[1]
    if x.rank == 4 and None not in (bound["weight"], bound["bias"]):
        return None
    image = x if x.rank == 4 else x.view(*x.shape[:2], 1, x.numel // (x.shape[0] * channels))
    results = builder.call(
        aten.native_group_norm.default,
        image.node,
        _parameter(builder, bound["weight"], channels, 1.0, x.dtype),
        _parameter(builder, bound["bias"], channels, 0.0, x.dtype),
        *(bound[name] for name in ("N", "C", "HxW", "group", "eps")),
    )
    return _results(builder, node, results)


def _parameter(builder: Builder, given: Node | None, count: int, default: float, dtype: torch.dtype) -> Node:
    if given is None:
        return builder.constant(torch.full((count,), default, dtype=dtype))
    constant = builder.program.constants.get(given.name)
    if len(shape_of(given)) == 1 or constant is None:
        return given if len(shape_of(given)) == 1 else value_of(builder, given).view(count).node
    return builder.derived(given, constant.detach().reshape(-1))


def _results(builder: Builder, node: Node, results: Node) -> list[Node | None]:
    """Returns the results that are read, in the shapes of the original call."""
    read = {user.args[1] for user in node.users}
    return [
        Value(builder, builder.call(operator.getitem, results, index)).view(*value.shape).node
        if index in read
        else None
        for index, value in enumerate(node.meta["val"])
    ]


def _softmax(builder: Builder, node: Node) -> Node | None:
    """Moves batch or channels, which are stacked along one axis, to the end."""
    bound = bind(node)
    x = value_of(builder, bound["self"])
    if x.rank != 4 or (dim := positive(bound["dim"], 4)) > 1:
        return None
    order = [each for each in range(4) if each != dim] + [dim]
    moved = builder.call(node.target, x.permute(*order).node, 3, bound["half_to_float"])  # type: ignore[arg-type]
    return Value(builder, moved).permute(*(order.index(each) for each in range(4))).node


def _addmm(builder: Builder, node: Node) -> Node:
    bound = bind(node)
    product = Value(builder, builder.call(aten.mm.default, bound["mat1"], bound["mat2"]))
    if bound["alpha"] != 1:
        product = product * bound["alpha"]
    if bound["beta"] == 0:
        return product.node
    bias = value_of(builder, bound["self"])
    return (product + (bias if bound["beta"] == 1 else bias * bound["beta"])).node


def _batch_norm(builder: Builder, node: Node) -> list[Node | None] | None:
    """Scales and shifts each channel."""
    bound = bind(node)
    x = value_of(builder, bound["input"])
    given = {
        name: bound[name] and builder.facts.constant(bound[name])
        for name in ("weight", "bias", "running_mean", "running_var")
    }
    mean, variance = given["running_mean"], given["running_var"]
    if mean is None or variance is None or any(bound[n] is not None and given[n] is None for n in given):
        return None
    scale = (variance.double() + bound["eps"]).rsqrt()
    if given["weight"] is not None:
        scale = scale * given["weight"]
    shift = -mean * scale
    if given["bias"] is not None:
        shift = shift + given["bias"]
    shape = [-1] + [1] * (x.rank - 2)
    factors = [builder.constant(each.to(mean.dtype).reshape(shape)) for each in (scale, shift)]
    factor, offset = (value_of(builder, each, x.dtype) for each in factors)
    return [(x * factor + offset).node, None, None]


def _convolution(builder: Builder, node: Node) -> Node | None:
    """Convolves the images of a batch one by one."""
    bound = bind(node)
    x = value_of(builder, bound["input"])
    if x.rank != 4 or not 1 < x.shape[0] <= _MOST_IMAGES:
        return None
    rest = [bound[name] for name in bound if name != "input"]
    images = [builder.call(aten.convolution.default, each.node, *rest) for each in x.split([1] * x.shape[0], 0)]
    return builder.call(aten.cat.default, images, 0, val=node.meta["val"])


def _merged_groups(builder: Builder, node: Node) -> Node | None:
    """Merges groups until they have multiples of four channels; the weights between them are zero."""
    bound = bind(node)
    weight = builder.facts.constant(bound["weight"])
    groups = bound["groups"]
    if weight is None or groups == 1 or bound["transposed"]:
        return None
    inputs, outputs = weight.shape[1], weight.shape[0] // groups
    counts = [count for count in range(2, groups + 1) if groups % count == 0]
    is_pointwise = set(weight.shape[2:]) == {1}
    merged = next((n for n in counts if n * inputs % 4 == n * outputs % 4 == 0 and not is_pointwise), groups)
    if merged * weight.numel() > _MOST_MERGED:
        return None
    blocks = weight.detach().view(groups // merged, merged, outputs, inputs, *weight.shape[2:])
    wide = weight.new_zeros(groups // merged, merged, outputs, merged, inputs, *weight.shape[2:])
    for place in range(merged):
        wide[:, place, :, place] = blocks[:, place]
    wide = wide.view(weight.shape[0], merged * inputs, *weight.shape[2:])
    arguments = {**bound, "weight": builder.derived(bound["weight"], wide), "groups": groups // merged}
    return builder.call(aten.convolution.default, *arguments.values(), val=node.meta["val"])


def _index_select(builder: Builder, node: Node) -> Node | None:
    bound = bind(node)
    x, index = value_of(builder, bound["self"]), value_of(builder, bound["index"])
    if not x.shape:
        return None
    dim = positive(bound["dim"], x.rank)
    ones = [1] * x.rank
    ones[dim] = index.numel
    spread = index.view(*ones).expand(*shape_of(node))
    return builder.call(aten.gather.default, x.node, dim, spread.node, val=node.meta["val"])


def _to_bool(builder: Builder, node: Node) -> Node | None:
    if dtype_of(node) != torch.bool:
        return None
    return _different(value_of(builder, bind(node)["self"]), 0).node


def _max_of_dim(builder: Builder, node: Node) -> list[Node | None]:
    bound = bind(node)
    extremum, position = _EXTREMA[node.target]
    return [
        builder.call(target, bound["self"], dim, bound["keepdim"])
        for target, dim in ((extremum, [bound["dim"]]), (position, bound["dim"]))
    ]


_EXTREMA: Final[dict[Any, Any]] = {
    aten.max.dim: (aten.amax.default, aten.argmax.default),
    aten.min.dim: (aten.amin.default, aten.argmin.default),
}
_MOST_IMAGES: Final = 32
_MOST_MERGED: Final = 1 << 24
_FLOATS: Final = (operand_dtypes(FLOATS, "it is computed in floats."),)
_FLOAT_RESULT: Final = (result_dtypes(FLOATS, "it is computed in floats."),)

_BINARY: Final = tuple(
    overload(f"{name}.{kind}")
    for name in ("add", "sub", "mul", "div", "lt", "le", "gt", "ge", "pow")
    for kind in (("Tensor", "Scalar") if name != "pow" else ("Tensor_Tensor", "Tensor_Scalar"))
)

OWN: Final = (
    *(Rewrite(target, _of_rank_one) for target in (*_BINARY, aten.rsub.Scalar, aten.minimum.default)),
    *(Rewrite(target, _compared(_equal)) for target in (aten.eq.Tensor, aten.eq.Scalar)),
    *(Rewrite(target, _compared(_different)) for target in (aten.ne.Tensor, aten.ne.Scalar)),
    Rewrite(aten.maximum.default, pointwise(_maximum, 2), note="the negated minimum"),
    Rewrite(aten.reciprocal.default, pointwise(_reciprocal), _FLOAT_RESULT),
    Rewrite(aten.erf.default, pointwise(_erf), _FLOAT_RESULT, note="to 1.5e-7"),
    Rewrite(aten.gelu.default, _gelu, _FLOATS, note="with erf to 1.5e-7"),
    Rewrite(aten.exp2.default, pointwise(lambda x: (x * math.log(2)).exp()), _FLOAT_RESULT),
    Rewrite(aten.ceil.default, pointwise(lambda x: -(-x).floor()), _FLOAT_RESULT),
    Rewrite(aten.trunc.default, pointwise(_truncated), _FLOAT_RESULT),
    Rewrite(aten.sign.default, pointwise(_sign), _FLOAT_RESULT),
    Rewrite(aten.isnan.default, _compared(lambda x: ~x.le(x)), _FLOATS),
    Rewrite(aten.isinf.default, _compared(lambda x: x.abs().ge(math.inf)), _FLOATS),
    Rewrite(aten.where.self, _select_bools, note="by `and` and `or` for bools"),
    *(Rewrite(target, _kept, _FLOATS) for target in (aten.mean.dim, aten.sum.dim_IntList)),
    *(Rewrite(target, _kept, _FLOATS) for target in (aten.amax.default, aten.amin.default)),
    *(Rewrite(target, _rows, _FLOATS, note="of rows in a buffer") for target in _REDUCTIONS),
    *(Rewrite(target, _position, _FLOATS) for target in (aten.argmax.default, aten.argmin.default)),
    Rewrite(aten.linear.default, _linear, preserved=True),
    Rewrite(aten.linear.default, _variable_linear, note="mm"),
    Rewrite(aten.native_layer_norm.default, _layer_norm),
    Rewrite(aten.native_group_norm.default, _group_norm),
    *(Rewrite(target, _softmax) for target in (aten._softmax.default, aten._log_softmax.default)),
    Rewrite(aten.convolution.default, _convolution, note="image by image"),
    Rewrite(aten.convolution.default, _merged_groups, note="with zeros between channels of a group"),
    Rewrite(aten.addmm.default, _addmm, note="mm"),
    Rewrite(aten._native_batch_norm_legit_no_training.default, _batch_norm, note="a product and a sum"),
    Rewrite(aten.index_select.default, _index_select, computes=False),
    Rewrite(aten._to_copy.default, _to_bool),
    *(Rewrite(target, _max_of_dim, _FLOATS) for target in _EXTREMA),
)

REWRITES: Final[Rewrites] = rewrites(OWN, [each for several in SHARED.values() for each in several])
