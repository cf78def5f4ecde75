# SPDX-License-Identifier: Apache-2.0
"""Comparison of outputs with eager mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from delegatec.diagnostics import Diagnostic
from delegatec.samples.compare import Comparison, compare
from delegatec.samples.tolerances import EXACT, Tolerance, Tolerances
from delegatec.verify.executors import REFERENCE

FIGURES: Final = ("max abs", "max rel", "cosine", "SNR dB")


@dataclass(frozen=True)
class Call:
    """A call of a program whose outputs are compared.

    Attributes:
        method: the method.
        trial: name of the inputs: "example" or the seed.
        executor: what ran the program: "reference", or the name of a runtime.
    """

    method: str
    trial: str
    executor: str = REFERENCE

    def __str__(self) -> str:
        place = "" if self.executor == REFERENCE else f" in {self.executor}"
        return f"method {self.method!r}, {self.trial}{place}"


@dataclass(frozen=True)
class OutputResult:
    """The result for one output of one call.

    Attributes:
        call: the call.
        output: index in the flattened result, from 0; inputs that the model writes to follow the outputs.
        path: its path in the result, such as "['logits']"; "" for a single tensor.
        kind: its dtype and shape.
        comparison: its difference from eager mode; None if shape or dtype differ.
        tolerance: the allowed difference.
        problem: what is wrong; None if the output is correct.
    """

    call: Call
    output: int
    path: str
    kind: str
    comparison: Comparison | None
    tolerance: Tolerance = EXACT
    problem: Diagnostic | None = None

    @property
    def method(self) -> str:
        """The method."""
        return self.call.method

    @property
    def trial(self) -> str:
        """Name of the inputs."""
        return self.call.trial

    @property
    def executor(self) -> str:
        """What ran the program."""
        return self.call.executor

    @property
    def passed(self) -> bool:
        """Whether the output is correct."""
        return self.comparison is not None and self.comparison.passed


def figures(comparison: Comparison | None) -> tuple[str, ...]:
    """Returns the `FIGURES` of a comparison, for a table."""
    if comparison is None:
        return ("-",) * len(FIGURES)
    c = comparison
    return f"{c.max_abs:.3g}", f"{c.max_rel:.3g}", f"{c.cosine:.7f}", f"{c.snr_db:.1f}"


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


@dataclass(frozen=True)
class Outputs:
    """Compares outputs, and collects the results.

    Attributes:
        tolerances: by dtype.
        results: comparisons of tensors and numbers.
        diagnostics: DC502 for other values, DC503 for another dtype or shape.
    """

    tolerances: Tolerances
    results: list[OutputResult] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def compare(self, call: Call, index: int, path: str, actual: Any, expected: Any) -> None:
        """Compares an output of a call.

        Args:
            call: the call.
            index: its index.
            path: its path in the result.
            actual: the program's result: a tensor, a number, a string or None.
            expected: the result in eager mode.
        """
        where = f"{call}, output {index} {path}".rstrip()
        if not isinstance(expected, torch.Tensor) and not isinstance(actual, torch.Tensor):
            if not isinstance(expected, (bool, int, float)) or not isinstance(actual, (bool, int, float)):
                if actual != expected:  # None or a string
                    message = f"{where} is {actual!r}; eager mode returns {expected!r}"
                    self.diagnostics.append(Diagnostic(code="DC502", message=message))
                return
            actual, expected = torch.as_tensor(actual), torch.as_tensor(expected)
            actual = actual.to(expected.dtype)
        problem = None
        kind = _kind(actual)
        if kind != _kind(expected):
            message = f"{where} is {kind}; eager mode returns {_kind(expected)}"
            problem = Diagnostic(code="DC503", message=message)
            self.diagnostics.append(problem)
            self.results.append(OutputResult(call, index, path, kind, None, problem=problem))
            return
        tolerance = self.tolerances.of(expected.dtype)
        result = compare(actual, expected, atol=tolerance.absolute, rtol=tolerance.relative)
        if not result.passed:
            problem = Diagnostic(
                code="DC502",
                message=(
                    f"{where} ({kind}): {result.failures} of {result.elements} elements are wrong;"
                    f" element {list(result.worst_index or ())} is {result.worst_actual:.9g},"
                    f" eager mode returns {result.worst_expected:.9g}"
                ),
                expected=f"|difference| <= {tolerance}",
            )
            self.diagnostics.append(problem)
        self.results.append(OutputResult(call, index, path, kind, result, tolerance, problem))


def _kind(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"
