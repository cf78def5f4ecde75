# SPDX-License-Identifier: Apache-2.0
"""The error that each source adds to the outputs, and the order in which layers go to float because of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from torch import Tensor

from delegatec.quantize.switches.switched import Leaves, Switched
from delegatec.samples.accuracy import ErrorSums

# Of the power of the outputs: less is rounding of float32.
_LEAST_NOISE: Final = 1e-12
# More is NaN or an infinity.
_MOST_NOISE: Final = 1e6


def noises(
    switched: Switched, samples: Sequence[Sequence[Any]], announce: Callable[[str], None]
) -> list[float]:
    """Returns the error of each source alone: its power over that of the outputs, of the worst output.

    Errors are small next to values, so that those of several sources add up to about that of all.

    Args:
        switched: the model.
        samples: inputs; the outputs are run for each source and sample.
        announce: receives the stage that begins.
    """
    announce("running in float")
    found: list[float] = []
    runs = switched.disturbed(samples)
    exact = next(runs)
    count = len(switched.sources)
    for index in range(count):
        announce(f"measuring the error of value {index + 1} of {count}")
        found.append(noise_of(exact, next(runs)))
    return found


def noise_of(exact: Sequence[Leaves], found: Sequence[Leaves]) -> float:
    """Returns the power of the error over that of the outputs, of the worst output."""
    sums: dict[int, ErrorSums] = {}
    for expected, actual in zip(exact, found, strict=True):
        for position, (one, other) in enumerate(zip(expected, actual, strict=True)):
            if isinstance(one, Tensor) and one.is_floating_point():
                sums.setdefault(position, ErrorSums()).add(other, one)
    return min(_MOST_NOISE, max((each.ratio for each in sums.values()), default=0.0))


@dataclass(frozen=True)
class Ranking:
    """Layers in the order in which they go to float.

    Attributes:
        steps: layers that go to float together, since an error ends only with all of them.
        left: the error that is left before the first step, and after each: a sum over sources.
    """

    steps: tuple[frozenset[int], ...]
    left: tuple[float, ...]

    def first(self, count: int) -> frozenset[int]:
        """Returns the layers of the first steps."""
        return frozenset().union(*self.steps[:count])


def ranking(switched: Switched, errors: Sequence[float], price: float = 1.0) -> Ranking:
    """Returns the order of layers: first those that end the most error for what they cost in float.

    A layer's price is its share of the operations, its share of the bytes that float weights add, and an
    equal price for each layer, so that neither many small layers nor one large one go to float first.

    Args:
        switched: the model.
        errors: of each source; see `noises`.
        price: of any layer; 1 is the mean of the shares of operations.
    """
    share = price / max(len(switched.units), 1)
    # a row of a single column needs more bytes for its scale than it saves
    added = [
        sum(max(weight.float_bytes - weight.integer_bytes, 0) for weight in unit.weights)
        for unit in switched.units
    ]
    prices = [
        share + unit.operations / max(switched.operations, 1) + more / max(sum(added), 1)
        for unit, more in zip(switched.units, added, strict=True)
    ]
    left: dict[frozenset[int], float] = {}
    for source, error in zip(switched.sources, errors, strict=True):
        if error > _LEAST_NOISE and not source.units & switched.fixed:
            left[source.units] = left.get(source.units, 0.0) + error
    stays = sum(errors) - sum(left.values())
    steps, gains = list[frozenset[int]](), list[float]()
    while left:
        of_unit = _by_unit(left)
        step = max(left, key=lambda units: _ended(units, left, of_unit) / sum(prices[unit] for unit in units))
        steps.append(step)
        gains.append(_ended(step, left, of_unit))
        rest: dict[frozenset[int], float] = {}
        for units, error in left.items():
            if more := units - step:
                rest[more] = rest.get(more, 0.0) + error
        left = rest
    remaining = accumulate(reversed(gains), initial=stays)
    return Ranking(tuple(steps), tuple(reversed(list(remaining))))


def _by_unit(errors: Iterable[frozenset[int]]) -> dict[int, list[frozenset[int]]]:
    found: dict[int, list[frozenset[int]]] = {}
    for units in errors:
        for unit in units:
            found.setdefault(unit, []).append(units)
    return found


def _ended(
    step: frozenset[int],
    errors: Mapping[frozenset[int], float],
    of_unit: Mapping[int, Sequence[frozenset[int]]],
) -> float:
    """Returns the error that ends with layers."""
    ended = dict.fromkeys(units for unit in step for units in of_unit[unit] if units <= step)
    return sum(errors[units] for units in ended)


def cheapest(switched: Switched, errors: Sequence[float], in_float: frozenset[int]) -> list[int]:
    """Returns the layers in float, in the order of the error that each alone adds for its operations.

    Args:
        switched: the model.
        errors: of each source; see `noises`.
        in_float: the layers in float.
    """
    added = dict.fromkeys(in_float, 0.0)
    for source, error in zip(switched.sources, errors, strict=True):
        for unit in source.units if source.units <= in_float else ():
            added[unit] += error
    return sorted(in_float, key=lambda unit: (added[unit] / max(switched.units[unit].operations, 1), unit))
