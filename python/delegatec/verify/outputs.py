# SPDX-License-Identifier: Apache-2.0
"""Comparison of outputs with eager mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from delegatec.diagnostics import Diagnostic
from delegatec.samples.compare import Comparison, compare
from delegatec.samples.inputs import Trial
from delegatec.samples.tolerances import EXACT, Tolerance, Tolerances


@dataclass(frozen=True)
class OutputResult:
    """The result for one output of one call.

    Attributes:
        method: the method.
        trial: name of the inputs: "example" or the seed.
        output: index in the flattened result, from 0; inputs that the model writes to follow the outputs.
        path: its path in the result, such as "['logits']"; "" for a single tensor.
        kind: its dtype and shape.
        comparison: its difference from eager mode; None if shape or dtype differ.
        tolerance: the allowed difference.
        problem: what is wrong; None if the output is correct.
    """

    method: str
    trial: str
    output: int
    path: str
    kind: str
    comparison: Comparison | None
    tolerance: Tolerance = EXACT
    problem: Diagnostic | None = None

    @property
    def passed(self) -> bool:
        """Whether the output is correct."""
        return self.comparison is not None and self.comparison.passed


def vacuous(results: Sequence[OutputResult]) -> list[Diagnostic]:
    """Returns a diagnostic for each output whose comparison cannot fail."""
    by_output: dict[tuple[str, str], list[OutputResult]] = {}
    for result in results:
        output = f"{result.output} {result.path}".rstrip()
        by_output.setdefault((result.method, output), []).append(result)
    return [
        Diagnostic(
            code="DC508",
            message=(
                f"method {method!r}, output {output}: zeros would pass with"
                f" atol = {calls[0].tolerance.absolute:g}"
            ),
            help="lower the tolerance, or give the model realistic weights and example inputs",
        )
        for (method, output), calls in by_output.items()
        if all(call.comparison is not None and call.comparison.vacuous for call in calls)
    ]


def compare_output(
    name: str,
    trial: Trial,
    output: tuple[int, str],
    actual: Any,
    expected: Any,
    tolerances: Tolerances,
    results: list[OutputResult],
    diagnostics: list[Diagnostic],
) -> None:
    """Compares an output of a call.

    Args:
        name: name of the method.
        trial: the call.
        output: its index and path.
        actual: the program's result: a tensor, a number, a string or None.
        expected: the result in eager mode.
        tolerances: by dtype.
        results: receives comparisons of tensors and numbers.
        diagnostics: receives DC502 for other values, DC503 for another dtype or shape.
    """
    index, path = output
    where = f"method {name!r}, {trial.name}, output {index} {path}".rstrip()
    if not isinstance(expected, torch.Tensor) and not isinstance(actual, torch.Tensor):
        if not isinstance(expected, (bool, int, float)) or not isinstance(actual, (bool, int, float)):
            if actual != expected:  # None or a string
                message = f"{where} is {actual!r}; eager mode returns {expected!r}"
                diagnostics.append(Diagnostic(code="DC502", message=message))
            return
        actual, expected = torch.as_tensor(actual), torch.as_tensor(expected)
        actual = actual.to(expected.dtype)
    problem = None
    if _kind(actual) != _kind(expected):
        message = f"{where} is {_kind(actual)}; eager mode returns {_kind(expected)}"
        problem = Diagnostic(code="DC503", message=message)
        diagnostics.append(problem)
        results.append(OutputResult(name, trial.name, index, path, _kind(actual), None, problem=problem))
        return
    tolerance = tolerances.of(expected.dtype)
    result = compare(actual, expected, atol=tolerance.absolute, rtol=tolerance.relative)
    if not result.passed:
        problem = Diagnostic(
            code="DC502",
            message=(
                f"{where} ({_kind(actual)}): {result.failures} of {result.elements} elements are wrong;"
                f" element {list(result.worst_index or ())} is {result.worst_actual:.9g},"
                f" eager mode returns {result.worst_expected:.9g}"
            ),
            expected=f"|difference| <= {tolerance}",
        )
        diagnostics.append(problem)
    results.append(OutputResult(name, trial.name, index, path, _kind(actual), result, tolerance, problem))


def _kind(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"
