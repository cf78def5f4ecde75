# SPDX-License-Identifier: Apache-2.0
"""Runs the samples of one operator and dtype in the stock runtime, and compares them with eager mode."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from delegatec.diagnostics import DelegatecError
from delegatec.edge import EdgeProgram
from delegatec.edge.testing import called
from delegatec.program import emit, write_program
from delegatec.program.kernels.check import check_kernels
from delegatec.program.kernels.legalize import legalize
from delegatec.program.kernels.limits import FLOAT64_IN_FLOAT32
from delegatec.program.symbolic import check_bounds
from tests.oracle.grid import SAMPLES
from tests.oracle.grid_program import program_of
from tests.oracle.grid_sample import Maker, Sample
from tests.oracle.oracle import OracleProgram

aten = torch.ops.aten

AS_EAGER: Final = "="
REWRITTEN: Final = "~"
WRONG: Final = "wrong"

# Results that are not a function of the arguments: only shape and dtype are compared.
_ARBITRARY: Final = frozenset({"empty.memory_format", "rand.default", "randn.default"})

# Eager mode computes in fixed point, and the last digit of a byte may differ.
_BYTES: Final = frozenset({"_upsample_bilinear2d_aa.default", "upsample_bilinear2d.vec"})

# Relative to the magnitude of the values: two roundings of each dtype's own, with room for sums of a few
# terms.
_TOLERANCES: Final = {
    torch.float16: (4e-3, 4e-3),
    torch.bfloat16: (3e-2, 3e-2),
    torch.float32: (2e-6, 1e-5),
    torch.float64: (1e-9, 1e-9),
}


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


def overload(name: str) -> OpOverload:
    """The operator of a name such as "add.Tensor"."""
    packet, _, rest = name.partition(".")
    found = getattr(getattr(aten, packet), rest)
    assert isinstance(found, OpOverload)
    return found


def measure(name: str, dtype: torch.dtype) -> Cell:
    """Calls one operator with all samples of a dtype: in eager mode, then in one program in the runtime."""
    cell, target = Cell(), overload(name)
    programs: dict[str, EdgeProgram] = {}
    runs: dict[str, tuple[Sample, list[Tensor], list[Any]]] = {}
    for sample in SAMPLES[name](Maker(dtype)):
        try:
            expected = target(*sample.args, **sample.kwargs)
        except (RuntimeError, IndexError, NotImplementedError):
            continue  # eager mode does not support the call
        try:
            program, inputs = program_of(target, sample)
        except DelegatecError as error:
            cell.refused += [problem.code for problem in error.diagnostics]
            continue
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
    assert len(results) == len(expected)
    for i, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        assert result.shape == wanted.shape
        if wanted.numel() == 0:
            continue  # its dtype differs in eager mode and in torch.export
        assert result.dtype == wanted.dtype
        if name in _ARBITRARY or _is_close(name, result, wanted):
            continue
        # Eager mode may be inexact: by its rounding of ties, or by NaN for infinity.
        exact = _exact(name, sample)[i]
        assert wanted.is_floating_point() and _is_close(name, result, exact.to(wanted.dtype)), (
            f"{result.flatten()[:6].tolist()}, in eager mode {wanted.flatten()[:6].tolist()}"
        )


def _is_close(name: str, result: Tensor, wanted: Tensor) -> bool:
    dtype = wanted.dtype
    if not dtype.is_floating_point:
        allowed = 1 if name in _BYTES and dtype is torch.uint8 else 0
        return bool((result.to(torch.float64) - wanted.to(torch.float64)).abs().max() <= allowed) and (
            allowed > 0 or torch.equal(result, wanted)
        )
    is_inexact = dtype is torch.float64 and overload(name) in FLOAT64_IN_FLOAT32
    absolute, relative = _TOLERANCES[torch.float32 if is_inexact else dtype]
    size = float(wanted[wanted.isfinite()].abs().double().max()) if wanted.isfinite().any() else 1.0
    return torch.allclose(result, wanted, atol=absolute * max(1.0, size), rtol=relative, equal_nan=True)


def _exact(name: str, sample: Sample) -> list[Tensor]:
    """The results of a call in float64."""

    def widen(value: Any) -> Any:
        is_fraction = isinstance(value, Tensor) and value.is_floating_point()
        return value.double() if is_fraction else value

    args, kwargs = pytree.tree_map(widen, (sample.args, sample.kwargs))
    kwargs.pop("dtype", None)
    return pytree.tree_leaves(overload(name)(*args, **kwargs))
