# SPDX-License-Identifier: Apache-2.0
"""Functions of one int16 value that several calls compute, such as softplus, as one table.

Each call rounds its result, and those between may need more than 16 bits: exp(x) + 1 inside of a logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.backends.arm.integer.conversion import Conversion
from delegatec.backends.arm.integer.functions import is_exact, is_tabulated, result_of
from delegatec.backends.arm.integer.values import Fixed, Quantized, TableFunction
from delegatec.edge.arguments import dtype_of, shape_of
from delegatec.edge.quantization.scale import Quantization

_STEP: Final = 128
_INTEGERS: Final = torch.arange(-(1 << 15), (1 << 15) + 1)
"""Those of int16, and the last knot of a table."""
_PRECISION: Final = 2
"""The largest error of interpolation, in quantization steps of the result."""
_COARSE: Final = 1 / 32
"""The largest error of one call, relative to its largest result; a line across a pole has more."""


@dataclass(frozen=True)
class _Composition:
    """A function of int16 values.

    Attributes:
        source: the values.
        results: for each of `_INTEGERS`, float64 or bool.
        is_exact: whether arithmetic computes it without tables.
    """

    source: Quantized
    results: Tensor
    is_exact: bool = True


class Compositions:
    """The functions of one int16 value in a program.

    Args:
        conversion: the representations of values.
    """

    def __init__(self, conversion: Conversion) -> None:
        self._conversion = conversion
        self._found: dict[Node, _Composition] = {}
        self._reads: dict[Node, int] = {}

    def add(self, node: Node) -> None:
        """Represents a call by a table if it is such a function, and interpolation is precise.

        Calls are added in order.
        """
        if self._conversion.arithmetic.wide_tables and is_tabulated(node):
            found = self._composition(node)
            if found is not None:
                self._found[node] = found
            to = self._conversion.target(node, exact=False)
            if to is not None and dtype_of(node).is_floating_point:
                self._tabulate(node, found, to)
        for each in node.all_input_nodes:
            self._reads[each] = self._reads.get(each, 0) + 1
            if self._reads[each] == len(each.users):
                self._found.pop(each, None)

    def _tabulate(self, node: Node, found: _Composition | None, to: Quantization) -> None:
        """Replaces the representation of a call by one table, or by a reason if its own is too coarse."""
        quantities, reasons = self._conversion.quantities, self._conversion.reasons
        if (
            found is not None
            and not found.is_exact
            and any(each in self._found for each in node.all_input_nodes)
        ):
            table = _table(found, to)
            if table is not None:
                quantities[node] = table
                reasons.pop(node, None)
                return
        single = None if is_exact(node) else self._single(node)
        if single is not None and _error(single, to) > _COARSE * _largest(single, to):
            del quantities[node]
            reasons[node] = "a function that lines between 513 values do not follow, such as one with poles"

    def _single(self, node: Node) -> _Composition | None:
        """Returns the function that the table of a call alone interpolates."""
        table, values = self._conversion.quantities.get(node), dict[Node, Tensor]()
        if not isinstance(table, TableFunction) or table.source.dtype != torch.int16:
            return None
        for each in node.all_input_nodes:
            value = self._conversion.quantities.get(each)
            if isinstance(value, TableFunction):
                return None
            uniform = value.uniform if isinstance(value, Fixed) else table.source.of(_INTEGERS)
            if uniform is None:
                return None
            values[each] = uniform
        return _Composition(table.source, result_of(node, values.__getitem__))

    def _composition(self, node: Node) -> _Composition | None:
        functions: dict[Node, _Composition] = {}
        constants: dict[Node, Tensor] = {}
        for each in node.all_input_nodes:
            function = self._found.get(each) or self._first(each)
            value = self._conversion.quantities.get(each)
            if function is not None:
                functions[each] = function
            elif isinstance(value, Fixed) and value.uniform is not None:
                constants[each] = value.uniform
            else:
                return None
        sources = [each.source for each in functions.values()]
        if not sources or any(each != sources[0] for each in sources) or sources[0].shape != shape_of(node):
            return None
        values: Mapping[Node, Tensor] = {each: function.results for each, function in functions.items()}
        exact = is_exact(node) and all(each.is_exact for each in functions.values())
        return _Composition(sources[0], result_of(node, {**values, **constants}.__getitem__), exact)

    def _first(self, operand: Node) -> _Composition | None:
        value = self._conversion.quantities.get(operand)
        if not isinstance(value, Quantized) or not value.is_narrow or value.dtype != torch.int16:
            return None
        return _Composition(replace(value, low=-math.inf, high=math.inf), value.of(_INTEGERS))


def _table(function: _Composition, to: Quantization) -> TableFunction | None:
    """Returns the knots of a function; None if it is not nearly linear between them."""
    if bool(function.results.isnan().any()) or _error(function, to) > _PRECISION * to.scale:
        return None
    return TableFunction(function.source, _clamped(function, to)[::_STEP])


def _error(function: _Composition, to: Quantization) -> float:
    """Returns the largest error of lines between the knots."""
    knots = _clamped(function, to)[::_STEP]
    weights = torch.arange(_STEP, dtype=torch.float64) / _STEP
    lines = knots[:-1, None] + (knots[1:] - knots[:-1])[:, None] * weights
    low, high = to.value(to.low), to.value(to.high)
    errors = (lines.flatten().clamp(low, high) - function.results[:-1].clamp(low, high)).abs()
    errors = errors[~errors.isnan()]  # next to values where it is not defined
    return float(errors.max()) if errors.numel() else 0.0


def _largest(function: _Composition, to: Quantization) -> float:
    """Returns the largest absolute value that is represented."""
    return float(function.results.clamp(to.value(to.low), to.value(to.high)).nan_to_num(0.0).abs().max())


def _clamped(function: _Composition, to: Quantization) -> Tensor:
    low, high = to.value(to.low), to.value(to.high)
    return function.results.clamp(2 * low, 2 * high)  # as in `Arithmetic.quantize`
