# SPDX-License-Identifier: Apache-2.0
"""Values that are whole numbers, such as results of rounding, masks and counts: they stay whole.

A 1 of a range up to 1 may become 0.9956, which is 0 as an integer. With a scale of 1 it is exact.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from delegatec.quantize.annotate.observers import (
    FixedObserver,
    MaskedHistogramObserver,
    MaskedMinMaxObserver,
)
from delegatec.quantize.loops.order import BORDERS
from delegatec.quantize.operators import BOUNDS, KINDS, Kind

aten = torch.ops.aten

_ROUNDED: Final = frozenset(
    {aten.round.default, aten.floor.default, aten.ceil.default, aten.trunc.default, aten.sign.default}
)
_CASTS: Final = frozenset({aten._to_copy.default, aten.to.dtype})
_AVERAGES: Final = frozenset(
    {
        *(aten.avg_pool1d.default, aten.avg_pool2d.default, aten.avg_pool3d.default),
        *(aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default),
        *(aten.upsample_linear1d.vec, aten.upsample_bilinear2d.vec, aten.upsample_trilinear3d.vec),
    }
)
# Of whole numbers, their results are whole.
_CLOSED: Final = frozenset(
    {
        *(each for each, kind in KINDS.items() if kind is Kind.SHARED and each not in (*_AVERAGES, *BORDERS)),
        *(aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.rsub.Scalar, *BOUNDS),
        *(aten.add.Scalar, aten.sub.Scalar, aten.mul.Scalar, aten.neg.default, aten.abs.default),
        *(aten.sum.default, aten.sum.dim_IntList, aten.cumsum.default),
        *(aten.prod.default, aten.prod.dim_int),
    }
)


def keep_whole_numbers(prepared: GraphModule, state: Collection[str]) -> None:
    """Sets the scale of whole numbers to 1 where a range of them has room for that, in place.

    Args:
        prepared: a graph with observers, which have observed all samples.
        state: names of buffers that calls write to.
    """
    modules = dict(prepared.named_modules(remove_duplicate=False))
    whole = _whole(prepared, modules, state)
    observed: dict[Any, list[Node]] = {}
    for node in prepared.graph.nodes:
        observer = modules.get(str(node.target)) if node.op == "call_module" else None
        if isinstance(observer, MaskedHistogramObserver | MaskedMinMaxObserver):
            observed.setdefault(observer, []).append(node)
    for observer, nodes in observed.items():
        if whole.issuperset(nodes) and (own := _exact(observer)) is not None:
            for name in [name for name, each in modules.items() if each is observer]:
                prepared.set_submodule(name, own)


def _whole(prepared: GraphModule, modules: Mapping[str, Any], state: Collection[str]) -> set[Node]:
    """Returns the floats of a graph that are whole numbers for all inputs."""
    found = set[Node]()
    for node in prepared.graph.nodes:
        if node.op == "get_attr":
            value = _constant(prepared, str(node.target), state)
            is_whole = value is not None and bool((value == value.round()).all())
        elif node.op == "call_module" and str(node.target) in modules:
            is_whole = node.args[0] in found
        elif node.target in _CASTS:
            is_whole = _is_integer(node.args[0]) or node.args[0] in found
        elif node.target in _CLOSED:
            numbers = (
                leaf for leaf in pytree.tree_leaves((node.args, node.kwargs)) if isinstance(leaf, float)
            )
            operands = (each for each in node.all_input_nodes if not _is_integer(each))
            is_whole = all(number.is_integer() for number in numbers) and found.issuperset(operands)
        else:
            is_whole = node.target in _ROUNDED
        if is_whole:
            found.add(node)
    return found


def _constant(prepared: GraphModule, name: str, state: Collection[str]) -> Tensor | None:
    """Returns a float constant; None for state, which calls write to."""
    owner, _, last = name.rpartition(".")
    value = getattr(prepared.get_submodule(owner), last, None)
    is_float = isinstance(value, Tensor) and value.is_floating_point()
    return value if is_float and name not in state else None


def _is_integer(node: Any) -> bool:
    val = node.meta.get("val")
    return isinstance(val, Tensor) and not (val.is_floating_point() or val.is_complex())


def _exact(observer: Any) -> FixedObserver | None:
    """Returns an observer with a scale of 1; None if the range does not fit, or has no values but zero."""
    low, high = min(float(observer.min_val), 0.0), max(float(observer.max_val), 0.0)
    least, most = observer.quant_min, observer.quant_max
    if not 0 < high - low <= most - least:
        return None
    if observer.qscheme == torch.per_tensor_symmetric:
        return FixedObserver(observer, 1.0, 0) if max(-low, high) <= most else None
    # in the middle of what is left, as samples may not have all values
    return FixedObserver(observer, 1.0, round((least + most - low - high) / 2))
