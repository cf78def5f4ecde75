# SPDX-License-Identifier: Apache-2.0
"""Comparison of outputs with eager mode."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch

from delegatec.diagnostics import Diagnostic
from delegatec.edge.draws import Drawn
from delegatec.samples.compare import Comparison, compare
from delegatec.samples.tolerances import EXACT, Tolerance, Tolerances
from delegatec.verify.executors import REFERENCE

EXPORTED: Final = "exported program"
MODULE: Final = "module"
_RETURNS: Final = {EXPORTED: "eager mode returns", MODULE: "the module itself returned"}
_HELP: Final = {EXPORTED: "", MODULE: "build the program, its .pt2 and the samples from one export"}


@dataclass(frozen=True)
class Call:
    """A call of a program whose outputs are compared.

    Attributes:
        method: the method.
        trial: name of the inputs: "example" or the seed.
        executor: the executor of the program: "reference", or the name of a runtime.
        oracle: the reference of the comparison: the exported program, or the results of the module for it.
    """

    method: str
    trial: str
    executor: str = REFERENCE
    oracle: str = EXPORTED

    def __str__(self) -> str:
        suffix = "" if self.executor == REFERENCE else f" in {self.executor}"
        return f"method {self.method!r}, {self.trial}{suffix}"


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
        minimum_snr: the least signal-to-noise ratio, in dB, if that decides instead of the tolerance.
        is_random: whether it follows from random numbers, so that only its dtype and shape are compared.
    """

    call: Call
    output: int
    path: str
    kind: str
    comparison: Comparison | None
    tolerance: Tolerance = EXACT
    problem: Diagnostic | None = None
    minimum_snr: float | None = None
    is_random: bool = False

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
        """The executor of the program."""
        return self.call.executor

    @property
    def passed(self) -> bool:
        """Whether the output is correct."""
        return self.problem is None

    @property
    def limit(self) -> str:
        """The requirement on an output, as a text."""
        if self.minimum_snr is None:
            return f"|difference| <= {self.tolerance}"
        return f"a signal-to-noise ratio of at least {self.minimum_snr:g} dB"

    @property
    def verdict(self) -> str:
        """The last column of a table."""
        if not self.passed:
            return "FAILED"
        if self.is_random:
            return "random, of this dtype and shape"
        if self.minimum_snr == -math.inf:
            return "quantized, without a limit"
        is_vacuous = self.comparison is not None and self.comparison.vacuous and self.minimum_snr is None
        return "ok, as zeros would be" if is_vacuous else "ok"


def vacuous(results: Sequence[OutputResult]) -> list[Diagnostic]:
    """Returns a diagnostic for each output whose comparison with the exported program cannot fail."""
    by_output: dict[tuple[str, str], list[OutputResult]] = {}
    for result in results:
        if result.call.oracle != EXPORTED:
            continue
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
        depths: method -> number of its sums in a row, as in `Tolerances`.
        minimum_snr: of outputs, in dB, instead of tolerances; None for the tolerances.
        drawn: method -> what follows from random numbers: executors draw other numbers than torch.
        results: comparisons of tensors and scalars.
        diagnostics: DC502 for other values, DC503 for another dtype or shape.
    """

    tolerances: Tolerances
    depths: Mapping[str, int] = field(default_factory=dict)
    minimum_snr: float | None = None
    drawn: Mapping[str, Drawn] = field(default_factory=dict)
    results: list[OutputResult] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def compare(
        self, call: Call, index: int, path: str, actual: Any, expected: Any, is_random: bool = False
    ) -> None:
        """Compares an output of a call.

        Args:
            call: the call.
            index: its index.
            path: its path in the result.
            actual: the program's result: a tensor, a scalar, a string or None.
            expected: the model's.
            is_random: whether it follows from random numbers.
        """
        where, returns = f"{call}, output {index} {path}".rstrip(), _RETURNS[call.oracle]
        if not isinstance(expected, torch.Tensor) and not isinstance(actual, torch.Tensor):
            if not isinstance(expected, (bool, int, float)) or not isinstance(actual, (bool, int, float)):
                if actual != expected and not is_random:  # None or a string
                    self._report(call, "DC502", f"{where} is {actual!r}; {returns} {expected!r}")
                return
            actual, expected = torch.as_tensor(actual), torch.as_tensor(expected)
            actual = actual.to(expected.dtype)
        kind = _kind(actual)
        if kind != _kind(expected):
            problem = self._report(call, "DC503", f"{where} is {kind}; {returns} {_kind(expected)}")
            self.results.append(OutputResult(call, index, path, kind, None, problem=problem))
            return
        if is_random:
            self.results.append(OutputResult(call, index, path, kind, None, is_random=True))
            return
        tolerances = replace(self.tolerances, depth=self.depths.get(call.method, 1))
        tolerance = EXACT if self.minimum_snr is not None else tolerances.of(expected.dtype)
        c = compare(actual, expected, atol=tolerance.absolute, rtol=tolerance.relative)
        result = OutputResult(call, index, path, kind, c, tolerance, minimum_snr=self.minimum_snr)
        if not (c.passed if self.minimum_snr is None else c.snr_db >= self.minimum_snr):
            message = (
                f"{where} ({kind}): {c.failures} of {c.elements} elements are wrong;"
                f" element {list(c.worst_index or ())} is {c.worst_actual:.9g},"
                f" {returns} {c.worst_expected:.9g}"
            )
            if self.minimum_snr is not None:
                message = f"{where} ({kind}): the signal-to-noise ratio is {c.snr_db:.4g} dB"
            result = replace(result, problem=self._report(call, "DC502", message, result.limit))
        self.results.append(result)

    def _report(self, call: Call, code: str, message: str, expected: str = "") -> Diagnostic:
        problem = Diagnostic(code, message, expected=expected, help=_HELP[call.oracle])
        self.diagnostics.append(problem)
        return problem


def _kind(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"
