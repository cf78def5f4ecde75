# SPDX-License-Identifier: Apache-2.0
"""The search for the layers that stay in float, until the loss of a quantized model is small enough.

The error of each layer alone ranks them (`sensitivity`), with few samples; then bisection over the ranking
finds the shortest beginning of it that suffices, by the loss over all samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.runnable import runnable
from delegatec.edge.source import location_of
from delegatec.edge.state import written_state
from delegatec.quantize.accuracy import called, float_caller
from delegatec.quantize.flow import QuantizedModel
from delegatec.quantize.search.objective import Objective
from delegatec.quantize.search.sensitivity import Ranking, cheapest, noises, ranking
from delegatec.quantize.switches.switched import Leaves, Switched
from delegatec.quantize.switches.units import Unit, weight_bytes
from delegatec.samples.search import FloatLayer, Search, SearchPoint, SourceLine

# Samples that layers are ranked with: the error of one says nearly what that of many does.
_RANKING_SAMPLES: Final = 2
# Prices of a layer in the rankings that are tried: many layers with few operations may end more error than
# one with many, or less.
_PRICES: Final = (1.0, 0.1)
# Layers in float that are tried in integers again.
_MOST_RETURNS: Final = 8
# Results that are quantized and measured: a range may be another one than in the measured choice.
_MOST_RESULTS: Final = 4
# Sums and differences of floats have rounding errors.
_DECIMALS: Final = 12

Announce = Callable[[str], None]
Quantize = Callable[[frozenset[int], Callable[[Switched], None] | None], QuantizedModel]
"""Quantizes a model, but for the calls with these marks; the function receives its switches."""


@dataclass(frozen=True)
class Found:
    """The result of a search.

    Attributes:
        model: the quantized model.
        search: what was measured.
    """

    model: QuantizedModel
    search: Search


def check_searchable(methods: Mapping[str, ExportedProgram]) -> None:
    """Raises DC134 for a model with several methods, or with state: a choice would depend on their calls."""
    names, state = ", ".join(methods), sorted(written_state(methods.values()))
    problems = [f"the model has the methods {names}"] * (len(methods) > 1)
    problems += [f'the model writes to its state, such as "{state[0]}"'] if state else []
    expected = "a model of one method without state"
    help = "set float_modules instead, and minimum_snr_db as the limit"
    if problems:
        raise DelegatecError(
            [Diagnostic("DC134", f"maximum_loss: {text}", expected=expected, help=help) for text in problems]
        )


def search(
    program: ExportedProgram,
    quantize: Quantize,
    objective: Objective,
    maximum_loss: float,
    announce: Announce,
) -> Found:
    """Quantizes a model, with as few layers in float as a limit of the loss needs.

    Args:
        program: the only method, in float, of a model that `check_searchable` accepts.
        quantize: quantizes the model: see `Quantize`.
        objective: what is measured.
        maximum_loss: by how much it may be lower than that of the model in float.
        announce: receives the stage that begins.

    Raises:
        DelegatecError: those of quantization and of the objective; DC139, no choice of layers suffices.
    """
    return _Searcher(program, quantize, objective, maximum_loss, announce).found()


class _Searcher:
    def __init__(
        self,
        program: ExportedProgram,
        quantize: Quantize,
        objective: Objective,
        maximum_loss: float,
        announce: Announce,
    ) -> None:
        self._program = program
        self._quantize = quantize
        self._objective = objective
        self._maximum = maximum_loss
        self._announce = announce
        self._evaluations = 0
        # Layers in float -> the metric.
        self._values: dict[frozenset[int], float] = {}
        kept: list[Switched] = []
        self._baseline = self._score(self._float_outputs(), "the model in float")
        self._whole = quantize(frozenset(), kept.append)
        (self._switched,) = kept

    def found(self) -> Found:
        """Returns the result."""
        if self._suffices(frozenset(), self._outputs(self._whole)):
            return self._result(self._whole, frozenset(), [0.0] * len(self._switched.sources))
        step = max(1, len(self._objective.inputs) // _RANKING_SAMPLES)
        errors = noises(self._switched, self._objective.inputs[::step][:_RANKING_SAMPLES], self._announce)
        orders = [ranking(self._switched, errors, price) for price in _PRICES]
        counts = [self._bisected(order) for order in orders]
        order, count = min(zip(orders, counts, strict=True), key=self._operations_in_float)
        in_float = self._returned(order.first(count), errors)
        for attempt in range(_MOST_RESULTS):
            if len(in_float) == len(self._switched.units):
                break
            marks = frozenset().union(*(self._switched.units[index].calls for index in in_float))
            model = self._quantize(marks, None)
            if self._suffices(in_float, self._outputs(model)):
                return self._result(model, in_float, errors)
            more = in_float | order.first(count + 2**attempt)
            if more == in_float:
                break  # it would be measured again
            in_float = more
        raise self._unmet()

    def _operations_in_float(self, found: tuple[Ranking, int]) -> int:
        order, count = found
        return sum(self._switched.units[index].operations for index in order.first(count))

    def _bisected(self, order: Ranking) -> int:
        """Returns the least number of steps that suffices, if more suffice, too."""
        low, high = 0, len(order.steps)
        if not high or not self._suffices_switched(order.first(high)):
            raise self._unmet()
        while high - low > 1:
            middle = (low + high) // 2
            if self._suffices_switched(order.first(middle)):
                high = middle
            else:
                low = middle
        return high

    def _returned(self, in_float: frozenset[int], errors: Sequence[float]) -> frozenset[int]:
        """Returns the layers that must stay in float, of those that may: a few are tried in integers."""
        for unit in cheapest(self._switched, errors, in_float)[:_MOST_RETURNS]:
            fewer = in_float - {unit}
            if fewer and self._suffices_switched(fewer):
                in_float = fewer
        return in_float

    # ---- measuring -----------------------------------------------------------------------------------------

    def _suffices_switched(self, in_float: frozenset[int]) -> bool:
        if in_float in self._values:
            return self._loss(in_float) <= self._maximum
        outputs = (self._switched.outputs(inputs, in_float) for inputs in self._objective.inputs)
        return self._suffices(in_float, outputs)

    def _suffices(self, in_float: frozenset[int], outputs: Iterable[Leaves]) -> bool:
        self._values[in_float] = self._score(outputs, f"the model with {len(in_float)} layers in float")
        return self._loss(in_float) <= self._maximum

    def _loss(self, in_float: frozenset[int]) -> float:
        return round(self._baseline - self._values[in_float], _DECIMALS)

    def _score(self, outputs: Iterable[Leaves], model: str) -> float:
        self._evaluations += 1
        return self._objective.score(self._announced(outputs), model)

    def _announced(self, outputs: Iterable[Leaves]) -> Iterator[Leaves]:
        count = len(self._objective.inputs)
        for index, leaves in enumerate(outputs):
            self._announce(f"evaluation {self._evaluations}, sample {index + 1} of {count}")
            yield leaves

    def _float_outputs(self) -> Iterator[Leaves]:
        module = runnable(self._program, {})
        for inputs in self._objective.inputs:
            yield pytree.tree_leaves(called(module, inputs, self._program))

    def _outputs(self, model: QuantizedModel) -> Iterator[Leaves]:
        (method,) = model.methods
        call = float_caller(model, method, {})
        for inputs in self._objective.inputs:
            yield call(inputs)

    # ---- results -------------------------------------------------------------------------------------------

    def _unmet(self) -> DelegatecError:
        """Returns the error for the best choice, of those that leave a layer in integers."""
        count = len(self._switched.units)
        partial = {each: value for each, value in self._values.items() if len(each) < count}
        best = max(partial, key=lambda each: (partial[each], len(each)))
        name = self._objective.name or "1 - error/signal"
        return DelegatecError(
            [
                Diagnostic(
                    "DC139",
                    f"maximum_loss is not met: with {len(best)} of {count} layers in float, {name} is "
                    f"{self._loss(best):.3g} less than that of the model in float, {self._baseline:.6g}",
                    expected=f"at most {self._maximum:g} less",
                    help="allow a larger loss, use wider dtypes (activation, inner, weight), or omit "
                    "quantize_io",
                )
            ]
        )

    def _result(self, model: QuantizedModel, in_float: frozenset[int], errors: Sequence[float]) -> Found:
        units, total = self._switched.units, max(self._switched.operations, 1)
        integers = sum(unit.operations for unit in units)
        points = [
            SearchPoint(
                len(each),
                round((integers - sum(units[index].operations for index in each)) / total, 4),
                weight_bytes(units, each),
                float(f"{value:.9g}"),
                each == in_float,
            )
            for each, value in self._values.items()
        ]
        noise = dict.fromkeys(in_float, 0.0)
        for source, error in zip(self._switched.sources, errors, strict=True):
            for index in source.units & in_float:
                noise[index] += error
        found = Search(
            self._objective.name,
            len(self._objective.inputs),
            float(f"{self._baseline:.9g}"),
            self._maximum,
            len(units) - len(self._switched.fixed),
            self._evaluations,
            tuple(sorted(points, key=lambda each: (each.float_layers, -each.integer_operations, each.value))),
            tuple(
                FloatLayer(
                    units[index].module,
                    _operator(units, index),
                    float(f"{noise[index]:.2g}"),
                    round(units[index].operations / total, 4),
                    _line(units[index].trace),
                )
                for index in sorted(in_float)
            ),
        )
        return Found(model, found)


def _operator(units: Sequence[Unit], index: int) -> str:
    """Returns the operator of a layer, with its weight if it is not the only one of its module."""
    unit = units[index]
    same = [each for each in units if (each.module, each.operator) == (unit.module, unit.operator)]
    if len(same) == 1 or not unit.weights:
        return unit.operator
    name = unit.weights[0].name
    return f"{unit.operator} of {name.removeprefix(f'{unit.module}.')}"


def _line(trace: str) -> SourceLine | None:
    found = location_of(trace)
    return SourceLine(found.file, found.line, found.function, found.text) if found else None
