# SPDX-License-Identifier: Apache-2.0
"""Metrics: functions of the user over outputs and labels. More is better."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch

from delegatec.accuracy.user_code import imported, refusal, user_code
from delegatec.delegation.faults import kind_of

SAMPLE: Final = "sample"
DATASET: Final = "dataset"
SCOPES: Final = (SAMPLE, DATASET)

_FUNCTION: Final = "a function of (outputs, label)"
_NUMBER: Final = "a finite number, more for better outputs"


class Metric:
    """A metric.

    Args:
        name: the selector, "module:attribute".
        function: over the outputs and the label of a sample, or over lists of them for all samples.
        over: one of `SCOPES`.
    """

    def __init__(self, name: str, function: Callable[[Any, Any], Any], over: str) -> None:
        self.name = name
        self.over = over
        self._function = function

    def __call__(self, outputs: Any, labels: Any, where: str) -> float:
        """Returns a score.

        Args:
            outputs: of a sample: the output, or a tuple if there are several; or a list of these.
            labels: the label of a sample, or a list.
            where: the program and the sample, for messages.

        Raises:
            DelegatecError: DC521, the function raises, or returns no finite number.
        """
        what = f"metric {self.name!r}"
        with user_code(self.name, f"{what}, {where},"):
            score = self._function(outputs, labels)
            if isinstance(score, torch.Tensor) and score.numel() == 1:
                score = score.item()
            if hasattr(score, "__float__") and not isinstance(score, torch.Tensor):
                score = float(score)
        if not isinstance(score, float):
            found = f"{kind_of(score)} of {list(score.shape)}" if hasattr(score, "shape") else kind_of(score)
            raise refusal(f"{what} returns {found} for {where}", expected=_NUMBER)
        if not math.isfinite(score):
            raise refusal(f"{what} returns {score} for {where}", expected=_NUMBER)
        return score


class Scores:
    """The scores of a program.

    Args:
        metric: the metric.
        program: name of the program in messages.
    """

    def __init__(self, metric: Metric, program: str) -> None:
        self.of_samples: Final[list[float]] = []
        self._metric = metric
        self._program = program
        self._outputs: list[Any] = []
        self._labels: list[Any] = []

    def add(self, outputs: Any, label: Any) -> None:
        """Adds the outputs of a sample."""
        if self._metric.over == SAMPLE:
            where = f"{self._program}, sample {len(self.of_samples)}"
            self.of_samples.append(self._metric(outputs, label, where))
        else:
            self._outputs.append(outputs)
            self._labels.append(label)

    def value(self) -> float:
        """Returns the metric: the mean over the samples, or what the function returns for all of them."""
        if self._metric.over == SAMPLE:
            return math.fsum(self.of_samples) / len(self.of_samples)
        return self._metric(self._outputs, self._labels, f"{self._program}, all samples")


def import_metric(selector: str, over: str) -> Metric:
    """Returns a metric.

    Args:
        selector: "module:attribute".
        over: one of `SCOPES`.

    Raises:
        DelegatecError: DC521, it cannot be imported, or is not a function.
    """
    found = imported("metric", selector, "my.metrics:top1", _FUNCTION)
    if not callable(found):
        raise refusal(f"metric {selector!r} is {kind_of(found)}", expected=_FUNCTION)
    return Metric(selector, found, over)
