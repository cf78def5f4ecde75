# SPDX-License-Identifier: Apache-2.0
"""Runs the samples of an operator in the reference executor of a backend, and compares with eager mode."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final
from unittest.mock import patch

import torch
from sampled_cases import part_of
from torch import Tensor
from torch.utils import _pytree as pytree

from delegatec.backends.common.partitioner import TablePartitioner
from delegatec.backends.common.table import OperatorTable
from delegatec.backends.common.testing import Compiled, compile_program
from delegatec.delegation import DelegationReport
from delegatec.diagnostics import DelegatecError
from delegatec.edge.legalize.rule import Rewrites
from tests.operators.catalogue import CATALOGUE, overload
from tests.operators.program import program_of
from tests.operators.quantized import quantize, result_scale, rounded
from tests.operators.sample import Maker, Sample
from tests.operators.tolerances import ROUNDED, Tolerances, difference

HALF: Final[Tolerances] = {**ROUNDED, torch.float32: (1e-2, 1e-2), torch.float16: (1e-2, 1e-2)}
"""Tolerances of backends that compute in float16: several roundings."""

_DTYPES: Final = (torch.float32, torch.int32, torch.bool)

# For how many dtypes and forms one runs by default, besides the first.
_STEP: Final = 5

_Run = tuple[Sample, list[Tensor]]
"""A sample, and its results in eager mode."""


@dataclass(frozen=True)
class Form:
    """How calls are made a program.

    Attributes:
        name: in a failure.
        has_constants: whether all tensors but the first are constants.
        only_first: whether only the first of several results is used, as models use those of a norm.
    """

    name: str = ""
    has_constants: bool = False
    only_first: bool = False

    def fits(self, run: _Run) -> bool:
        """Whether the form is another one for a call."""
        sample, results = run
        if self.only_first:
            return len(results) > 1
        tensors = sum(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves((sample.args, sample.kwargs)))
        return tensors > 1 or not self.has_constants


FORMS: Final = (
    Form(),
    Form("other operands constant", has_constants=True),
    Form("other operands constant, the first result", has_constants=True, only_first=True),
)


@dataclass(frozen=True)
class Setting:
    """Options of a backend, and what is tested with them.

    Attributes:
        options: of the backend.
        dtypes: of the samples.
        tolerances: by dtype of the result.
        is_half: whether the backend computes in float16: samples are rounded, and extreme ones are not
            compared.
        quantized: how many quantized values a result may be off if operands and results are quantized to
            int8; 0 if they are not. Samples that are extreme or without a tensor are left out.
        only_finite: whether samples with NaN, infinities or integers beyond 2^24 are not compared.
        forms: how calls are made programs; the first alone if another setting tests the others.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    dtypes: Sequence[torch.dtype] = _DTYPES
    tolerances: Tolerances = field(default_factory=lambda: ROUNDED)
    is_half: bool = False
    quantized: float = 0.0
    only_finite: bool = False
    forms: Sequence[Form] = FORMS

    def given(self, sample: Sample) -> Sample:
        """Returns a sample with operands that the setting represents."""
        if not self.is_half and not self.quantized:
            return sample
        represent = rounded if self.quantized else _half
        return Sample(*pytree.tree_map(represent, (sample.args, sample.kwargs)))

    def tolerances_of(self, wanted: Tensor) -> Tolerances:
        """Returns the tolerances of a result."""
        if not self.quantized or wanted.dtype != torch.float32 or wanted.numel() == 0:
            return self.tolerances
        scale = result_scale(wanted) / max(1.0, float(wanted.abs().max()))
        return {torch.float32: (self.quantized * scale, 0.0)}


@dataclass
class Found:
    """Outcomes of the samples of one operator.

    Attributes:
        delegated: number of calls in delegates.
        wrong: texts of those that differ from eager mode.
        deviations: likewise, of samples with extreme operands or results.
    """

    delegated: int = 0
    wrong: list[str] = field(default_factory=list)
    deviations: list[str] = field(default_factory=list)


def _by_reference(compiled: Compiled, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    return compiled(*inputs)


@dataclass(frozen=True)
class BackendCheck:
    """A backend and what is special to it.

    Attributes:
        backend: its name.
        table: its rows.
        rewrites: its rewrites.
        settings: what is tested.
        deviations: operator -> why results differ from eager mode if operands or results are NaN, infinite,
            or integers beyond 2^24.
        unsupported: operator -> why no sample is delegated, although the backend has the operator.
        run: runs a compiled program; by default, delegates in the reference executor.
    """

    backend: str
    table: OperatorTable[Any, Any]
    rewrites: Rewrites
    settings: Sequence[Setting]
    deviations: Mapping[str, str] = field(default_factory=dict)
    unsupported: Mapping[str, str] = field(default_factory=dict)
    run: Callable[[Compiled, Sequence[Tensor]], Sequence[Tensor]] = _by_reference

    def names(self) -> list[str]:
        """Returns the operators of the catalogue that the backend has."""
        own = self.table.rows.keys() | self.rewrites.keys()
        return [name for name in CATALOGUE if overload(name) in own]

    def check(self, name: str) -> None:
        """Checks an operator: its samples in every setting, dtype, form, or in the first and a part of them.

        Each also runs if that part has no call in a delegate, so that every operator is tested in one.
        """
        found = Found()
        every = [
            (setting, dtype, form)
            for setting in range(len(self.settings))
            for dtype in self.settings[setting].dtypes
            for form in self.settings[setting].forms
        ]
        part = [every[0], *part_of(every[1:], _STEP, f"{self.backend} {name}")]
        self._measure_all(name, part, found)
        if not found.delegated and name not in self.unsupported:
            self._measure_all(name, [case for case in every if case not in part], found)
            part = every
        assert not found.wrong, "\n".join(found.wrong)
        deviates = name in self.deviations and (bool(found.deviations) or len(part) == len(every))
        assert bool(found.deviations) == deviates, "\n".join(found.deviations)
        assert bool(found.delegated) != (name in self.unsupported)

    def _measure_all(self, name: str, cases: Sequence[tuple[int, torch.dtype, Form]], found: Found) -> None:
        for (number, dtype), forms in itertools.groupby(cases, lambda case: case[:2]):
            setting = self.settings[number]
            runs = [*_runs(name, dtype, setting)]
            for _, _, form in forms:
                self._measure(name, setting, form, [run for run in runs if form.fits(run)], found)

    def _measure(self, name: str, setting: Setting, form: Form, runs: Sequence[_Run], found: Found) -> None:
        """Runs samples in one program; one by one if that fails, to find out which one does."""
        if not runs:
            return
        try:
            results, report = self._run(name, setting, form, runs)
        except (AssertionError, DelegatecError, LookupError, RuntimeError, TypeError, ValueError) as error:
            if len(runs) == 1:
                found.wrong.append(f"{self._text(name, setting, form, runs[0][0])}: {error}")
            else:
                failures = len(found.wrong)
                for run in runs:
                    self._measure(name, setting, form, [run], found)
                if failures == len(found.wrong):
                    found.wrong.append(f"{self.backend}: {name}, all samples in one program: {error}")
            return
        target = str(overload(name))
        found.delegated += len(runs) - sum(each.operator == target for each in report.rejections)
        remaining = iter(results)
        for sample, wanted in runs:
            in_range = (value.half() if setting.is_half else value for value in wanted)
            is_extreme = sample.is_extreme or not all(bool(value.isfinite().all()) for value in in_range)
            for i, value in enumerate(wanted[: 1 if form.only_first else None]):
                text = difference(name, sample, i, next(remaining), value, setting.tolerances_of(value))
                if text and not (is_extreme and (setting.is_half or setting.only_finite)):
                    wrong = found.deviations if is_extreme else found.wrong
                    wrong.append(f"{self._text(name, setting, form, sample)}: {text}")

    def _run(
        self, name: str, setting: Setting, form: Form, runs: Sequence[_Run]
    ) -> tuple[Sequence[Tensor], DelegationReport]:
        samples = [sample for sample, _ in runs]
        program, inputs = program_of(
            overload(name), *samples, has_constants=form.has_constants, only_first=form.only_first
        )
        if setting.quantized:
            count = 1 if form.only_first else None
            quantize(program, inputs, [result for _, results in runs for result in results[:count]])
        # operators that only move data alone are not worth a delegate
        with ExitStack() as scope:
            for each in (TablePartitioner, *TablePartitioner.__subclasses__()):
                scope.enter_context(patch.object(each, "is_worthwhile", lambda *_: True))
            compiled = compile_program(self.backend, program, **setting.options)
        return self.run(compiled, inputs), compiled.report

    def _text(self, name: str, setting: Setting, form: Form, sample: Sample) -> str:
        options = " ".join(f"{key}={value}" for key, value in setting.options.items())
        return f"{' '.join(filter(None, (self.backend, options, form.name)))}: {name}({sample})"


def _runs(name: str, dtype: torch.dtype, setting: Setting) -> Iterator[_Run]:
    """Yields the samples that eager mode supports."""
    for sample in CATALOGUE[name](Maker(dtype)):
        if setting.quantized and (sample.is_extreme or not sample.has_tensors):
            continue
        given = setting.given(sample)
        try:
            results = pytree.tree_leaves(overload(name)(*given.args, **given.kwargs))
        except (RuntimeError, IndexError, NotImplementedError):
            continue
        if not setting.quantized or all(bool(result.isfinite().all()) for result in results):
            yield given, results


def _half(value: Any) -> Any:
    """Rounds float32 to values of float16."""
    is_float = isinstance(value, Tensor) and value.dtype == torch.float32
    return value.half().float() if is_float else value
