# SPDX-License-Identifier: Apache-2.0
"""A metric over a dataset, as what a search for layers in float measures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from delegatec.accuracy.dataset import Sample
from delegatec.accuracy.metric import Metric, Scores
from delegatec.accuracy.user_code import refusal


class MetricObjective:
    """The metric of a model over a dataset.

    Args:
        metric: the metric.
        samples: the dataset, not empty.
    """

    def __init__(self, metric: Metric, samples: Sequence[Sample]) -> None:
        self.name = metric.name
        self.inputs: Sequence[Sequence[Any]] = [sample.inputs for sample in samples]
        self._metric = metric
        self._labels = [sample.label for sample in samples]

    def score(self, outputs: Iterable[list[Any]], model: str) -> float:
        """Returns the metric.

        Args:
            outputs: those of each sample.
            model: which model computed them, for messages.

        Raises:
            DelegatecError: DC521, the metric raises, returns no finite number, or another one for
                the same outputs.
        """
        scores, again = (Scores(self._metric, model) for _ in range(2))
        for found, label in zip(outputs, self._labels, strict=True):
            output = found[0] if len(found) == 1 else tuple(found)
            scores.add(output, label)
            again.add(output, label)
        value, second = scores.value(), again.value()
        if value != second:
            raise refusal(
                f"metric {self.name!r} returns {value:.6g}, then {second:.6g} for the same outputs",
                "choose no random numbers in it, and keep no values from call to call",
                expected="a number that depends on outputs and labels alone",
            )
        return value
