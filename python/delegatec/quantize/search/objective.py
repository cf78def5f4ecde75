# SPDX-License-Identifier: Apache-2.0
"""What a search measures: the error against the model in float, or a metric of the user."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from delegatec.quantize.search.sensitivity import noise_of
from delegatec.quantize.switches.switched import Leaves


class Objective(Protocol):
    """A number for the outputs of all samples: more is better."""

    @property
    def name(self) -> str:
        """Selector of the metric; "" for the error against the model in float."""
        ...

    @property
    def inputs(self) -> Sequence[Sequence[Any]]:
        """The inputs of the method, sample by sample."""
        ...

    def score(self, outputs: Iterable[Leaves], model: str) -> float:
        """Returns the number.

        Args:
            outputs: of each sample, in order.
            model: which model computed them, for messages; the one in float is first.
        """
        ...


class ErrorObjective:
    """1 minus the ratio of the powers of error and outputs, of the worst output.

    Args:
        inputs: as in `Objective`.
    """

    name = ""

    def __init__(self, inputs: Sequence[Sequence[Any]]) -> None:
        self.inputs = inputs
        self._exact: list[Leaves] | None = None

    def score(self, outputs: Iterable[Leaves], model: str) -> float:
        """See `Objective`."""
        found = list(outputs)
        if self._exact is None:
            self._exact = found
        return 1.0 - noise_of(self._exact, found)
