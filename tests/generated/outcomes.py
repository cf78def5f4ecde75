# SPDX-License-Identifier: Apache-2.0
"""Outcomes of a program: exported, lowered and run by each backend, and compared with eager mode."""

from __future__ import annotations

import copy
import os
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol
from unittest.mock import patch

import torch
from torch import Tensor
from torch.export import ExportedProgram

from delegatec.diagnostics import DelegatecError
from delegatec.edge.testing.narrowed import narrowed_sizes
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.lowering import Program as Lowered
from delegatec.lowering import lower
from tests.arm import reference_model
from tests.generated.examples import Call, calls_of, model_of, tensor_of
from tests.generated.expected import EAGER_ERRORS, Expected, accepted, expected
from tests.generated.program import FORWARD, Program, module
from tests.generated.quantizing import NotQuantizedError, Quantized, quantized
from tests.generated.running import interpreter, results_of, runtime, written, wrong
from tests.generated.targets import IN_REFERENCE_MODEL, IN_RUNTIME, LOWERINGS, PORTABLE, TARGETS

RIGHT: Final = "right"
REFUSED: Final = "refused"
NO_EXPORT: Final = "no export"
WRONG: Final = "wrong"
TRACEBACK: Final = "traceback"
CRASH: Final = "crash"
HANG: Final = "hang"
NOT_QUANTIZED: Final = "not quantized"  # the peer's quantizer fails on the program
GENERATOR: Final = "generator"  # eager mode rejects the program
FAULTS: Final = (WRONG, TRACEBACK, CRASH, HANG)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a program.

    Attributes:
        target: one of `TARGETS`.
        kind: "right", "refused" by the compiler, "no export", or one of `FAULTS`.
        text: codes and reasons, or what is wrong.
        delegates: number of delegates of the lowered program.
    """

    target: str
    kind: str
    text: str = ""
    delegates: int = 0


def outcomes(program: Program, targets: Sequence[str] = TARGETS) -> list[Outcome]:
    """Returns the outcome for each target; for the first alone if the model is not exported."""
    with tempfile.TemporaryDirectory() as directory, warnings.catch_warnings(), _retraced_once():
        warnings.simplefilter("ignore")
        return _outcomes(program, targets, Path(directory) / "model.pt2")


@contextmanager
def _retraced_once() -> Iterator[None]:
    """Shares torch's functional form of a graph between targets, as it takes most of the time."""
    run, kept = ExportedProgram.run_decompositions, dict[str, ExportedProgram]()

    def first(self: ExportedProgram, decompositions: Any) -> ExportedProgram:
        key = self.graph_module.code + repr([value.tolist() for value in self.state_dict.values()])
        if key not in kept:
            kept[key] = run(self, decompositions)
        return copy.deepcopy(kept[key])

    with patch.object(ExportedProgram, "run_decompositions", first):
        yield


def _outcomes(program: Program, targets: Sequence[str], path: Path) -> list[Outcome]:
    tensors = {each.name: tensor_of(program, each) for each in program.inputs}
    buffers = {each.name: tensors[each.name] for each in program.buffers}
    try:
        methods = export(model_of(program))
        calls = calls_of(program, methods)
        archive.save(methods, str(path))
    except DelegatecError as error:
        return [Outcome(PORTABLE, NO_EXPORT, _reasons(error))]
    except Exception as error:  # noqa: BLE001 - the errors that this looks for
        return [Outcome(PORTABLE, TRACEBACK, _last_lines(error))]
    calls = accepted(program, buffers, calls)  # a program supports fewer sizes than its exported program
    if not calls:
        return [Outcome(PORTABLE, GENERATOR, "eager mode rejects it")]
    # the sizes of a call of another method may be none of this one
    first = next((call for call in calls if call.method == FORWARD), None)
    if first and (text := _inconsistent(program, methods[FORWARD], buffers, first.inputs)):
        return [Outcome(PORTABLE, GENERATOR, text)]
    found: list[Outcome] = []
    known: dict[float, Expected] = {}
    models: dict[str, Quantized | Outcome] = {}
    for target in targets:
        lowering = LOWERINGS[target]
        if any(each.target == lowering.base and not each.delegates for each in found):
            continue  # a program without a delegate has no precision or storage
        quantization = lowering.quantization
        small = path.with_name(f"{quantization}.pt2")
        if quantization:
            if quantization not in models:
                models[quantization] = _quantized(quantization, program, path, calls, small)
            made = models[quantization]
            if isinstance(made, Outcome):
                found.append(replace(made, target=target))
                continue
        if lowering.least not in known:
            try:
                known[lowering.least] = expected(program, buffers, calls, lowering.least)
            except EAGER_ERRORS as error:
                return [Outcome(target, GENERATOR, _last_lines(error))]
        wanted = known[lowering.least]
        if quantization:
            fits = lowering.keeps_int64 or wanted.fits_int32
            judge = made if fits else _Exact(wanted, compare=False)
            found.append(_outcome(target, small, calls, judge, wanted.sums_fit))
            continue
        fits = not lowering.least or wanted.fits_float16
        compare = fits and (lowering.keeps_nonfinite or wanted.is_finite)
        compare = compare and (lowering.keeps_int64 or wanted.fits_int32)
        compare = compare and (lowering.keeps_infinite_maxima or wanted.maxima_finite) and wanted.squares_fit
        compare = compare and (lowering.keeps_groups or wanted.groups_finite)
        compare = compare and (lowering.keeps_long_integers or wanted.short_integers)
        compare = compare and (lowering.keeps_large_scores or wanted.scores_fit)
        compare = compare and (lowering.keeps_subnormals or wanted.is_normal)
        found.append(_outcome(target, path, calls, _Exact(wanted, compare), wanted.sums_fit))
    return found


class Judge(Protocol):
    """Compares results of a program with those in eager mode."""

    def __call__(self, found: Sequence[Sequence[Any]], calls: Sequence[Call], where: str = "") -> str:
        """Returns a difference; "" if there is none."""
        ...


@dataclass(frozen=True)
class _Exact:
    """Compares up to rounding."""

    wanted: Expected
    compare: bool

    def __call__(self, found: Sequence[Sequence[Any]], calls: Sequence[Call], where: str = "") -> str:
        return wrong(found, calls, self.wanted, self.compare, where)


def _inconsistent(
    program: Program, exported: ExportedProgram, buffers: Mapping[str, Tensor], inputs: list[Tensor]
) -> str:
    """Returns a difference between the results of torch.export and of eager mode in shape or dtype."""
    copies = {name: tensor.clone() for name, tensor in buffers.items()}
    with torch.no_grad():
        results = module(program, copies)(*(tensor.clone() for tensor in inputs))
    nodes = {node.name: node for node in exported.graph.nodes}
    for name, result in zip(exported.graph_signature.user_outputs, results, strict=True):
        val = nodes[name].meta["val"] if name in nodes else result
        static = [
            size if isinstance(size, int) else other
            for size, other in zip(val.shape, result.shape, strict=False)
        ]
        if (val.dtype != result.dtype and result.numel()) or static != list(result.shape):
            return f"{name} is {val.dtype}{static} for torch.export"
    return ""


def _quantized(
    name: str, program: Program, path: Path, calls: list[Call], small: Path
) -> Quantized | Outcome:
    """Quantizes a program, and writes the result to `small`. A failure is the outcome of each target."""
    methods = archive.load(str(path)).methods
    try:
        model = quantized(name, program, methods, calls)
        archive.save(model.methods, str(small))
    except NotQuantizedError as error:
        return Outcome(PORTABLE, NOT_QUANTIZED, str(error))
    except DelegatecError as error:
        return Outcome(PORTABLE, REFUSED, _reasons(error))
    except Exception as error:  # noqa: BLE001 - the errors that this looks for
        return Outcome(PORTABLE, TRACEBACK, f"quantization: {_last_lines(error)}")
    text = model.lost()
    return Outcome(PORTABLE, WRONG, text) if text else model


def _outcome(target: str, path: Path, calls: list[Call], judge: Judge, in_model: bool = True) -> Outcome:
    """Lowers a program and runs it.

    Args:
        target: a key of `LOWERINGS`.
        path: the `.pt2`.
        calls: the calls.
        judge: compares the results.
        in_model: whether delegates run in Arm's reference model, too, which does not define overflows.
    """
    lowered, names = None, sorted({call.method for call in calls})
    try:
        methods = archive.load(str(path)).methods
        lowered = lower(methods, LOWERINGS[target].backend, LOWERINGS[target].options)
        if narrowed := [text for each in lowered.programs.values() if (text := narrowed_sizes(each))]:
            return Outcome(target, WRONG, f"sizes are lost: {narrowed}", _delegates(lowered))
        pte = written(lowered, path)
        run = runtime if target in IN_RUNTIME else interpreter
        text = judge(results_of(run(pte, names), calls), calls)
        if text and target == PORTABLE:
            seen = judge(results_of(interpreter(pte, names), calls), calls)
            text += "; the interpreter differs, too" if seen else "; the interpreter is right"
        if not text and in_model and target in IN_REFERENCE_MODEL and _delegates(lowered):
            found = results_of(interpreter(pte, names, reference_model.backends()), calls)
            text = judge(found, calls, "in the reference model, ")
        return Outcome(target, WRONG if text else RIGHT, text, _delegates(lowered))
    except DelegatecError as error:
        if lowered and "ZeroDivisionError" in str(error) and _wraps(target, judge):
            return Outcome(target, RIGHT, "", _delegates(lowered))
        # An error of the interpreter, or of a reference executor, comes from a program that was accepted.
        kind = REFUSED if lowered is None or any(d.code == "DC501" for d in error.diagnostics) else WRONG
        return Outcome(target, kind, _reasons(error))
    except Exception as error:  # noqa: BLE001 - the errors that this looks for
        is_runtime = lowered is not None and isinstance(error, RuntimeError)
        return Outcome(target, WRONG if is_runtime else TRACEBACK, _last_lines(error))


def _wraps(target: str, judge: Judge) -> bool:
    """Whether large integers wrap in delegates, which may make a divisor zero."""
    return not LOWERINGS[target].keeps_int64 and isinstance(judge, _Exact) and not judge.wanted.fits_int32


def _delegates(lowered: Lowered) -> int:
    return sum(len(report.delegates) for report in lowered.reports.values())


def _reasons(error: DelegatecError) -> str:
    return "; ".join(sorted({f"{problem.code} {problem.message}" for problem in error.diagnostics}))


def _last_lines(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if f"{os.sep}delegatec{os.sep}" in frame.filename] or frames
    where = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""
    return f"{type(error).__name__} at {where}: {str(error)[:300]}"
