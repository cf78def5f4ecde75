# SPDX-License-Identifier: Apache-2.0
"""The metric of a program and of its baseline, sample by sample, and their limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from delegatec.accuracy.dataset import Sample, label_text
from delegatec.accuracy.metric import SAMPLE, Metric, Scores
from delegatec.accuracy.user_code import refusal
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.program.reader.model import Dynamism, Method, Tensor
from delegatec.verify.executors import Executor

# Decimals that are compared with limits: sums and differences of floats have rounding errors.
_DECIMALS: Final = 12


@dataclass(frozen=True)
class Limits:
    """What the accuracy of a program must be.

    Attributes:
        floor: the least value of the metric; None for no limit.
        maximum_loss: the largest difference from the baseline; None for no limit.
    """

    floor: float | None = None
    maximum_loss: float | None = None


@dataclass(frozen=True)
class Difference:
    """A sample whose score differs from that of the baseline.

    Attributes:
        sample: its index.
        label: its label, shortened.
        program: score of the program.
        baseline: score of the baseline.
    """

    sample: int
    label: str
    program: float
    baseline: float


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of a program.

    Attributes:
        method: name of the method.
        metric: selector of the metric.
        over: what the metric is a function of: one of `delegatec.accuracy.metric.SCOPES`.
        executor: where the programs ran, such as "reference".
        samples: number of samples.
        value: the metric of the program.
        baseline: that of the baseline; None without one.
        limits: what it must be.
        differences: samples with different scores, the largest losses first; none if the metric is one
            number for all samples.
    """

    method: str
    metric: str
    over: str
    executor: str
    samples: int
    value: float
    baseline: float | None
    limits: Limits
    differences: tuple[Difference, ...]

    @property
    def loss(self) -> float | None:
        """By how much the metric is lower than that of the baseline."""
        return None if self.baseline is None else round(self.baseline - self.value, _DECIMALS)

    def floor_problem(self) -> Diagnostic | None:
        """Returns the error of a metric below its floor."""
        floor = self.limits.floor
        if floor is None or round(self.value, _DECIMALS) >= floor:
            return None
        message = f"{self.metric} is {self.value:.6g} over {self.samples} samples"
        return Diagnostic("DC520", message, expected=f"at least {floor:.6g}")

    def loss_problem(self) -> Diagnostic | None:
        """Returns the error of a metric that is too far below that of the baseline."""
        limit, loss = self.limits.maximum_loss, self.loss
        if limit is None or loss is None or loss <= limit:
            return None
        message = (
            f"{self.metric} is {self.value:.6g}, and {self.baseline:.6g} of the baseline: {loss:.6g} less"
        )
        return Diagnostic("DC520", message, expected=f"at most {limit:.6g} less")


class Subject:
    """A program that is evaluated.

    Args:
        name: "the program" or "the baseline".
        executor: runs it.
        method: the method that is called.
    """

    def __init__(self, name: str, executor: Executor, method: Method) -> None:
        self.name = name
        self.executor = executor
        self.method = method

    def outputs(self, index: int, sample: Sample) -> Any:
        """Returns the output for a sample, or a tuple if the method has several.

        Args:
            index: of the sample.
            sample: the sample, which stays as it is.

        Raises:
            DelegatecError: DC504, other inputs than those of the method; DC505, the method fails.
        """
        where = f"{self.name}, sample {index}"
        if problem := next(_input_problems(self.method, sample.inputs), None):
            raise DelegatecError([replace(problem, message=f"{where}: {problem.message}")])
        inputs = [each.clone() if isinstance(each, torch.Tensor) else each for each in sample.inputs]
        try:
            found = self.executor.run(self.method.name, inputs)
        except DelegatecError as error:
            problems = [replace(each, message=f"{where}: {each.message}") for each in error.diagnostics]
            raise DelegatecError(problems) from error
        return found[0] if len(found) == 1 else tuple(found)


def evaluate(
    subjects: Sequence[Subject],
    samples: Iterable[Sample],
    metric: Metric,
    limits: Limits,
    on_sample: Callable[[int], None] = lambda index: None,
) -> Accuracy:
    """Runs a program, and its baseline if there is one, with each sample.

    Args:
        subjects: the program, and perhaps the baseline.
        samples: the dataset; it is read once.
        metric: the metric.
        limits: what the accuracy must be.
        on_sample: is called before each sample.

    Raises:
        DelegatecError: DC504 or DC505, a program does not run with a sample; DC521, there are no samples, or
            the code of the user fails.
    """
    scores = [Scores(metric, subject.name) for subject in subjects]
    labels = []
    for index, sample in enumerate(samples):
        on_sample(index)
        labels.append(label_text(sample.label))
        for subject, own in zip(subjects, scores, strict=True):
            own.add(subject.outputs(index, sample), sample.label)
    if not labels:
        raise refusal("the dataset has no samples")
    value, *baseline = [own.value() for own in scores]
    differences = []
    if baseline and metric.over == SAMPLE:
        rows = zip(labels, *(own.of_samples for own in scores), strict=True)
        differences = [
            Difference(index, label, program, other)
            for index, (label, program, other) in enumerate(rows)
            if program != other
        ]
    return Accuracy(
        subjects[0].method.name,
        metric.name,
        metric.over,
        subjects[0].executor.name,
        len(labels),
        value,
        baseline[0] if baseline else None,
        limits,
        tuple(sorted(differences, key=lambda each: (each.program - each.baseline, each.sample))),
    )


def _input_problems(method: Method, inputs: Sequence[Any]) -> Iterator[Diagnostic]:
    """Yields what is wrong with inputs: runtimes do not check them."""
    if len(inputs) != len(method.inputs):
        message = f"{len(inputs)} inputs, and method {method.name!r} takes {len(method.inputs)}"
        yield Diagnostic("DC504", message)
        return
    for position, (index, value) in enumerate(zip(method.inputs, inputs, strict=True)):
        spec = method.values[index]
        if not isinstance(spec, Tensor):
            if isinstance(value, torch.Tensor) or value != spec:
                yield Diagnostic("DC504", f"input {position} is {_type_of(value)}", expected=repr(spec))
        elif not _matches(value, spec):
            sizes = ", ".join(
                ("<=" if spec.dynamism is Dynamism.BOUND else "") + str(size) for size in spec.sizes
            )
            yield Diagnostic(
                "DC504",
                f"input {position} is {_type_of(value)}",
                expected=f"{spec.kind.name}[{sizes}]",
            )


def _matches(value: Any, spec: Tensor) -> bool:
    if not isinstance(value, torch.Tensor) or value.dtype != getattr(torch, spec.kind.name):
        return False
    if spec.dynamism is Dynamism.STATIC:
        return tuple(value.shape) == spec.sizes
    is_bound = spec.dynamism is Dynamism.BOUND
    return value.dim() == len(spec.sizes) and not (
        is_bound and any(size > most for size, most in zip(value.shape, spec.sizes, strict=True))
    )


def _type_of(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return f"of type {type(value).__name__}"
