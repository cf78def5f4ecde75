# SPDX-License-Identifier: Apache-2.0
"""One output of one call, compared with eager's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from delegatec.diagnostics import Diagnostic
from delegatec.verify.compare import Comparison, compare
from delegatec.verify.inputs import Trial


@dataclass(frozen=True)
class OutputResult:
    """One output of one call.

    Attributes:
        method: the method.
        trial: which inputs: "example" or the seed.
        output: number of the output, counted from 0 in the flattened result; inputs that the model writes to
            are counted behind the outputs.
        path: where it is in the result, such as "['logits']"; "" for a result that is one tensor.
        kind: its dtype and shape.
        comparison: how far it is from eager; None if shape or dtype differ.
    """

    method: str
    trial: str
    output: int
    path: str
    kind: str
    comparison: Comparison | None

    @property
    def passed(self) -> bool:
        """Whether it is as it should be."""
        return self.comparison is not None and self.comparison.passed


def vacuous(results: Sequence[OutputResult], atol: float) -> list[Diagnostic]:
    """A diagnostic for each output whose comparison could not have failed, whatever the inputs."""
    by_output: dict[tuple[str, str], list[OutputResult]] = {}
    for result in results:
        output = f"{result.output} {result.path}".rstrip()
        by_output.setdefault((result.method, output), []).append(result)
    return [
        Diagnostic(
            code="DC508",
            message=f"method {method!r}, output {output}: zeros would pass with atol = {atol:g}",
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
    tolerance: tuple[float, float],
    results: list[OutputResult],
    diagnostics: list[Diagnostic],
) -> None:
    """Compares one output of one call.

    Args:
        name: of the method.
        trial: the call.
        output: its number and its path.
        actual: what the program gives: a tensor, a number, a string or None.
        expected: what eager gives.
        tolerance: absolute and relative.
        results: gets the comparison of tensors and numbers.
        diagnostics: gets DC502 for other values, DC503 for another dtype or shape.
    """
    index, path = output
    where = f"method {name!r}, {trial.name}, output {index} {path}".rstrip()
    if not isinstance(expected, torch.Tensor) and not isinstance(actual, torch.Tensor):
        if not isinstance(expected, (bool, int, float)) or not isinstance(actual, (bool, int, float)):
            if actual != expected:  # None, or text
                message = f"{where} is {actual!r}; eager gives {expected!r}"
                diagnostics.append(Diagnostic(code="DC502", message=message))
            return
        actual, expected = torch.as_tensor(actual), torch.as_tensor(expected)
        actual = actual.to(expected.dtype)
    if _kind(actual) != _kind(expected):
        results.append(OutputResult(name, trial.name, index, path, _kind(actual), None))
        message = f"{where} is {_kind(actual)}; eager gives {_kind(expected)}"
        diagnostics.append(Diagnostic(code="DC503", message=message))
        return
    result = compare(actual, expected, atol=tolerance[0], rtol=tolerance[1])
    results.append(OutputResult(name, trial.name, index, path, _kind(actual), result))
    if not result.passed:
        diagnostics.append(
            Diagnostic(
                code="DC502",
                message=(
                    f"{where} ({_kind(actual)}): {result.failures} of {result.elements} elements are wrong;"
                    f" element {list(result.worst_index or ())} is {result.worst_actual:.9g},"
                    f" eager gives {result.worst_expected:.9g}"
                ),
                expected=f"|difference| <= {tolerance[0]:g} + {tolerance[1]:g} * |value|",
            )
        )


def _kind(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"
