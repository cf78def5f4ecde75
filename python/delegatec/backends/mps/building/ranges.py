# SPDX-License-Identifier: Apache-2.0
"""What is known of the values of integer tensors before they are computed.

Look-ups ask it: an index that cannot be negative need not be wrapped, and small integers survive the float32
in which MPSGraph gathers and scatters.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind

Range = tuple[float, float]
"""Smallest and largest value, both included."""

_DEEPEST: Final = 64


class Ranges:
    """Ranges of the values of a program's nodes, found on demand.

    Args:
        constants: placeholder -> its tensor.
    """

    def __init__(self, constants: Mapping[Node, torch.Tensor]) -> None:
        self._constants = constants
        self._known: dict[Node, Range] = {}
        self._depth = 0

    def of(self, value: Any) -> Range:
        """The range of a node's values, or of a number: that of the dtype if nothing else is known."""
        if not isinstance(value, Node):
            return value, value
        if value not in self._known:
            if self._depth > _DEEPEST or not _is_static(value):
                return _of_dtype(value)
            self._depth += 1
            self._known[value] = self._found(value)
            self._depth -= 1
        return self._known[value]

    def _found(self, node: Node) -> Range:
        widest = _of_dtype(node)
        constant = self._constants.get(node)
        if constant is not None:
            found = _of_constant(constant)
        elif node.target in _RULES:
            found = _RULES[node.target](self, node)
        else:
            return widest
        # What an integer cannot hold wraps around; infinity minus infinity is nothing at all.
        return found if widest[0] <= found[0] and found[1] <= widest[1] else widest


def _is_static(node: Node) -> bool:
    """Whether rules may count elements: operands of what a partition reads can have dynamic sizes."""
    values = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    sizes = [size for value in values if isinstance(value, torch.Tensor) for size in value.shape]
    return not any(isinstance(size, torch.SymInt) for size in (*sizes, *values))


def _of_dtype(node: Node) -> Range:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype.is_floating_point:
        return -math.inf, math.inf
    if value.dtype == torch.bool:
        return 0, 1
    return torch.iinfo(value.dtype).min, torch.iinfo(value.dtype).max


def _of_constant(tensor: torch.Tensor) -> Range:
    if tensor.numel() == 0:
        return 0, 0
    low, high = (value.item() for value in tensor.aminmax())
    return low, high


Rule = Callable[[Ranges, Node], Range]


def _like(argument: str) -> Rule:
    return lambda ranges, node: ranges.of(bind(node)[argument])


def _union(*arguments: str) -> Rule:
    def rule(ranges: Ranges, node: Node) -> Range:
        values = [bind(node)[argument] for argument in arguments]
        flat = [v for value in values for v in (value if isinstance(value, (list, tuple)) else [value])]
        lows, highs = zip(*map(ranges.of, flat), strict=True)
        return min(lows), max(highs)

    return rule


def _corners(combine: Callable[[float, float, float], float]) -> Rule:
    """Of what is monotonous in each of two operands: the extremes are at the corners."""

    def rule(ranges: Ranges, node: Node) -> Range:
        bound = bind(node)
        corners = itertools.product(ranges.of(bound["self"]), ranges.of(bound["other"]))
        values = [combine(a, b, bound.get("alpha", 1)) for a, b in corners]
        return (math.nan, math.nan) if any(map(math.isnan, values)) else (min(values), max(values))

    return rule


def _remainder(ranges: Ranges, node: Node) -> Range:
    low, high = ranges.of(bind(node)["other"])
    return (0, high) if low > 0 else _of_dtype(node)


def _clamp(ranges: Ranges, node: Node) -> Range:
    bound = bind(node)
    low, high = ranges.of(bound["self"])
    least = -math.inf if bound["min"] is None else bound["min"]
    most = math.inf if bound["max"] is None else bound["max"]
    return min(max(low, least), most), min(max(high, least), most)


def _to_copy(ranges: Ranges, node: Node) -> Range:
    low, high = ranges.of(bind(node)["self"])
    if node.meta["val"].dtype.is_floating_point or not (math.isfinite(low) and math.isfinite(high)):
        return low, high
    return math.trunc(low), math.trunc(high)


def _arange(ranges: Ranges, node: Node) -> Range:
    bound = bind(node)
    first, step = bound["start"], bound["step"]
    last = first + (node.meta["val"].numel() - 1) * step
    return min(first, last), max(first, last)


def _total(ranges: Ranges, node: Node) -> Range:
    """Sums of any number of elements, down to one."""
    source = bind(node)["self"]
    (low, high), count = ranges.of(source), source.meta["val"].numel()
    return min(low, low * count), max(high, high * count)


def _position(ranges: Ranges, node: Node) -> Range:
    bound = bind(node)
    shape = bound["self"].meta["val"].shape
    return 0, (math.prod(shape) if bound["dim"] is None or not shape else shape[bound["dim"]]) - 1


def _item(ranges: Ranges, node: Node) -> Range:
    """Of operators with several results: parts of the operand, or its elements and their positions."""
    source, index = node.args
    if not isinstance(source, Node) or source.target not in _WITH_PARTS | _WITH_POSITIONS:
        return _of_dtype(node)
    bound = bind(source)
    if index == 0 or source.target in _WITH_PARTS:
        return ranges.of(bound["self"])
    shape = bound["self"].meta["val"].shape
    return 0, shape[bound["dim"]] - 1 if shape else 0


def _overloads(names: str) -> list[Any]:
    pairs = (name.partition(".") for name in names.split())
    return [getattr(getattr(torch.ops.aten, packet), variant or "default") for packet, _, variant in pairs]


def _table(rule: Rule, names: str) -> dict[Any, Rule]:
    return dict.fromkeys(_overloads(names), rule)


_WITH_PARTS: Final = frozenset(_overloads("split.Tensor split_with_sizes unbind.int"))
_WITH_POSITIONS: Final = frozenset(_overloads("topk sort max.dim min.dim"))


_RULES: Final[Mapping[Any, Rule]] = {
    **_table(
        _like("self"),
        "alias clone detach view reshape expand repeat permute transpose.int squeeze squeeze.dim "
        "squeeze.dims unsqueeze select.int slice.Tensor index.Tensor index_select gather flip "
        "roll unfold as_strided diagonal diagonal_copy amax amin",
    ),
    **_table(_like("weight"), "embedding"),
    **_table(_like("fill_value"), "full full_like"),
    **_table(_like("s"), "scalar_tensor"),
    **_table(_union("tensors"), "cat stack"),
    **_table(_union("self", "other"), "where.self minimum maximum"),
    **_table(_union("self", "value"), "masked_fill.Scalar"),
    **_table(_union("self", "values"), "index_put"),
    **_table(_union("self", "src"), "slice_scatter scatter.src"),
    **_table(_union("self", "value"), "scatter.value"),
    **_table(_corners(lambda a, b, alpha: a + alpha * b), "add.Tensor add.Scalar"),
    **_table(_corners(lambda a, b, alpha: a - alpha * b), "sub.Tensor sub.Scalar"),
    **_table(_corners(lambda a, b, alpha: b - alpha * a), "rsub.Scalar"),
    **_table(_corners(lambda a, b, _: a * b), "mul.Tensor mul.Scalar"),
    **_table(_remainder, "remainder.Tensor remainder.Scalar"),
    **_table(_clamp, "clamp"),
    **_table(_to_copy, "_to_copy"),
    **_table(_arange, "arange.start_step"),
    **_table(_total, "sum sum.dim_IntList cumsum"),
    **_table(_position, "argmax argmin"),
    operator.getitem: _item,
}
