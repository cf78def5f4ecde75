# SPDX-License-Identifier: Apache-2.0
"""Runs the samples of one operator and dtype in the stock runtime, and compares them with eager mode."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from delegatec.diagnostics import DelegatecError
from delegatec.edge import KERNEL_COMPOSITES, EdgeProgram
from delegatec.edge.kernels import KERNELS
from delegatec.edge.legalize.normal_form import decompose
from delegatec.edge.out_variants import kernel_name, out_variant
from delegatec.edge.testing import called
from delegatec.program import emit, write_program
from delegatec.program.kernels.check import check_kernels
from delegatec.program.kernels.legalize import legalize
from delegatec.program.kernels.limits import FLOAT64_IN_FLOAT32
from delegatec.program.symbolic import check_bounds
from tests.operators.catalogue import CATALOGUE, overload
from tests.operators.program import program_of
from tests.operators.sample import Maker, Sample
from tests.operators.tolerances import ROUNDED, difference
from tests.oracle.oracle import OracleProgram

AS_EAGER: Final = "="
REWRITTEN: Final = "~"
WRONG: Final = "wrong"

NAMES: Final = [
    name
    for name in CATALOGUE
    if (variant := out_variant(overload(name))) is not None and kernel_name(variant) in KERNELS
]
"""The operators of the catalogue that the runtime has a kernel for."""

# A kernel that computes float64 in float32 has the tolerance of float32.
_IN_FLOAT32: Final = {**ROUNDED, torch.float64: ROUNDED[torch.float32]}


@dataclass
class Cell:
    """The outcomes of the calls of one operator with one dtype.

    Attributes:
        passed: number of samples that agree with eager mode.
        rewritten: how many of these the compiler has rewritten.
        refused: codes of those that the compiler rejects.
        wrong: the others, each with its error.
    """

    passed: int = 0
    rewritten: int = 0
    refused: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Returns None if eager mode does not support the call."""
        if self.wrong:
            return WRONG
        parts = [REWRITTEN if self.rewritten else AS_EAGER] if self.passed else []
        return " ".join(parts + sorted(set(self.refused)))


def measure(name: str, dtype: torch.dtype) -> Cell:
    """Calls one operator with all samples of a dtype: in eager mode, then in one program in the runtime."""
    cell, target = Cell(), overload(name)
    programs: dict[str, EdgeProgram] = {}
    runs: dict[str, tuple[Sample, list[Tensor], list[Any]]] = {}
    for sample in CATALOGUE[name](Maker(dtype)):
        try:
            expected = target(*sample.args, **sample.kwargs)
        except (RuntimeError, IndexError, NotImplementedError):
            continue  # eager mode does not support the call
        try:
            program, inputs = program_of(target, sample)
        except DelegatecError as error:
            cell.refused += [problem.code for problem in error.diagnostics]
            continue
        decompose(program, preserve=KERNEL_COMPOSITES)
        before = called(program)
        legalize(program)
        problems = [*check_kernels(program), *check_bounds(program)]
        if problems:
            cell.refused += [problem.code for problem in problems]
            continue
        method = f"call_{len(runs)}"
        programs[method] = program
        runs[method] = (sample, inputs, pytree.tree_leaves(expected))
        # empty tensors are filled
        has_elements = any(leaf.numel() for leaf in runs[method][2])
        cell.rewritten += has_elements and called(program) != before
    if not programs:
        return cell
    file = io.BytesIO()
    write_program(emit(programs), file)
    runtime = OracleProgram(file.getvalue())
    for method, (sample, inputs, expected) in runs.items():
        try:
            results = runtime.run(inputs, method)
            _compare(name, sample, results, expected)
            cell.passed += 1
        except (AssertionError, RuntimeError) as error:
            cell.wrong.append(f"{name}({sample}): {error}")
    return cell


def _compare(name: str, sample: Sample, results: Sequence[Any], expected: Sequence[Any]) -> None:
    tolerances = _IN_FLOAT32 if overload(name) in FLOAT64_IN_FLOAT32 else ROUNDED
    for i, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        found = difference(name, sample, i, result, wanted, tolerances)
        assert not found, found
