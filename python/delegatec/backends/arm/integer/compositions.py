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
from delegatec.edge.arguments import shape_of
from delegatec.edge.quantization.scale import Quantization

_STEP: Final = 128
_INTEGERS: Final = torch.arange(-(1 << 15), (1 << 15) + 1)
"""Those of int16, and the last knot of a table."""
_PRECISION: Final = 2
"""The largest error of interpolation, in quantization steps of the result."""


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
                is_first = not any(each in self._found for each in node.all_input_nodes)
                to = None if found.is_exact or is_first else self._conversion.target(node, exact=False)
                if to is not None and (table := _table(found, to)) is not None:
                    self._conversion.quantities[node] = table
                    self._conversion.reasons.pop(node, None)
        for each in node.all_input_nodes:
            self._reads[each] = self._reads.get(each, 0) + 1
            if self._reads[each] == len(each.users):
                self._found.pop(each, None)

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
    if function.results.dtype == torch.bool or bool(function.results.isnan().any()):
        return None
    low, high = to.value(to.low), to.value(to.high)
    results = function.results.clamp(2 * low, 2 * high)  # as in `Arithmetic.quantize`
    knots = results[::_STEP]
    weights = torch.arange(_STEP, dtype=torch.float64) / _STEP
    lines = knots[:-1, None] + (knots[1:] - knots[:-1])[:, None] * weights
    is_close = (lines.flatten() - results[:-1]).abs() <= _PRECISION * to.scale
    is_represented = (results[:-1] >= low) & (results[:-1] <= high)
    if not bool((is_close | ~is_represented).all()):
        return None
    return TableFunction(function.source, knots)
