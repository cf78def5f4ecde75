# SPDX-License-Identifier: Apache-2.0
"""Outcomes of a program: exported, lowered and run by each backend, and compared with eager mode."""

from __future__ import annotations

import copy
import io
import os
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram

from delegatec.backends import builtin_backends
from delegatec.delegation.registry import BackendRegistry
from delegatec.diagnostics import DelegatecError
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.lowering import Lowered, lower
from delegatec.program import write_program
from delegatec.program.reader import read_program
from delegatec.verify.interpreter import Interpreter
from tests.arm import reference_model
from tests.generated.expected import EAGER_ERRORS, Expected, difference, expected
from tests.generated.program import Input, Program, module
from tests.generated.targets import IN_RUNTIME, LOWERINGS, PORTABLE, TARGETS, TOSA, TOSA_FLOATING
from tests.generated.values import make
from tests.oracle.oracle import OracleProgram

RIGHT: Final = "right"
REFUSED: Final = "refused"
NO_EXPORT: Final = "no export"
WRONG: Final = "wrong"
TRACEBACK: Final = "traceback"
CRASH: Final = "crash"
HANG: Final = "hang"
GENERATOR: Final = "generator"  # eager mode rejects the program
FAULTS: Final = (WRONG, TRACEBACK, CRASH, HANG)


@dataclass(frozen=True)
class Outcome:
    """What became of a program.

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
    """Shares torch's functional form of a program between targets, as it takes most of the time."""
    run, kept = ExportedProgram.run_decompositions, list[ExportedProgram]()

    def first(self: ExportedProgram, decompositions: Any) -> ExportedProgram:
        if not kept:
            kept.append(run(self, decompositions))
        return copy.deepcopy(kept[0])

    with patch.object(ExportedProgram, "run_decompositions", first):
        yield


def _outcomes(program: Program, targets: Sequence[str], path: Path) -> list[Outcome]:
    tensors = {each.name: _tensor(program, each) for each in program.inputs}
    buffers = {each.name: tensors[each.name] for each in program.buffers}
    first = [tensors[each.name] for each in program.arguments]
    own = {name: tensor.clone() for name, tensor in buffers.items()}
    try:
        model = Model(
            module(program, own),
            tuple(tensor.clone() for tensor in first),
            dynamic_shapes=tuple(
                {dim: Dim.AUTO(min=1, max=9) for dim in each.dynamic} or None for each in program.arguments
            )
            or None,
        )
        methods = export(model)
        calls = [first, *_second_call(program, methods["forward"])]
        archive.save(methods, str(path))
    except DelegatecError as error:
        return [Outcome(PORTABLE, NO_EXPORT, _reasons(error))]
    except Exception as error:  # noqa: BLE001 - the errors that this looks for
        return [Outcome(PORTABLE, TRACEBACK, _last_lines(error))]
    if text := _inconsistent(program, methods["forward"], buffers, first):
        return [Outcome(PORTABLE, GENERATOR, text)]
    found = []
    known: dict[float, Expected] = {}
    for target in targets:
        lowering = LOWERINGS[target]
        if any(each.target == lowering.base and not each.delegates for each in found):
            continue  # a program without a delegate has no precision or storage
        if lowering.least not in known:
            try:
                known[lowering.least] = expected(program, buffers, calls, lowering.least)
            except EAGER_ERRORS:
                calls = calls[:1]  # the program supports fewer sizes than its exported program
                try:
                    known[lowering.least] = expected(program, buffers, calls, lowering.least)
                except EAGER_ERRORS as error:
                    return [Outcome(target, GENERATOR, _last_lines(error))]
        wanted = known[lowering.least]
        fits = not lowering.least or wanted.fits_float16
        compare = fits and (lowering.keeps_nonfinite or wanted.is_finite)
        compare = compare and (lowering.keeps_int64 or wanted.fits_int32)
        compare = compare and (lowering.pools_infinity or wanted.pools_finite)
        found.append(_outcome(target, path, calls, wanted, compare))
    return found


def _inconsistent(
    program: Program, exported: ExportedProgram, buffers: dict[str, Tensor], inputs: list[Tensor]
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


def _tensor(program: Program, wanted: Input) -> Tensor:
    literal = program.literals.get(wanted.name)
    return make(wanted) if literal is None else literal.clone()


def _outcome(target: str, path: Path, calls: list[list[Tensor]], wanted: Expected, compare: bool) -> Outcome:
    lowered = None
    try:
        methods = archive.load(str(path)).methods
        lowered = lower(methods, LOWERINGS[target].backend, LOWERINGS[target].options)
        text = _wrong(_runner(lowered, target, path), calls, wanted, compare)
        if text and target == PORTABLE:
            seen = _wrong(_interpreter(lowered, path), calls, wanted, compare)
            text += "; the interpreter differs, too" if seen else "; the interpreter is right"
        if not text and target in (TOSA, TOSA_FLOATING) and _delegates(lowered):
            run = _interpreter(lowered, path, reference_model.backends())
            text = _wrong(run, calls, wanted, compare, "in the reference model, ")
        return Outcome(target, WRONG if text else RIGHT, text, _delegates(lowered))
    except DelegatecError as error:
        # An error of the interpreter, or of a reference executor, comes from a program that was accepted.
        kind = REFUSED if lowered is None or any(d.code == "DC501" for d in error.diagnostics) else WRONG
        return Outcome(target, kind, _reasons(error))
    except Exception as error:  # noqa: BLE001 - the errors that this looks for
        is_runtime = lowered is not None and isinstance(error, RuntimeError)
        return Outcome(target, WRONG if is_runtime else TRACEBACK, _last_lines(error))


def _wrong(
    run: Callable[[Sequence[Any]], list[Any]],
    calls: list[list[Tensor]],
    wanted: Expected,
    compare: bool,
    where: str = "",
) -> str:
    for number, (call, values) in enumerate(zip(calls, wanted.calls, strict=True)):
        results = run([tensor.clone() for tensor in call])
        if len(results) != len(values):
            return f"{len(results)} results for {len(values)}"
        for i, (result, value) in enumerate(zip(results, values, strict=True)):
            text = difference(result, value) if compare else ""
            if text:
                return f"{where}call {number}, output {i}: {text}"
    return ""


def _runner(lowered: Lowered, target: str, path: Path) -> Callable[[Sequence[Any]], list[Any]]:
    if target not in IN_RUNTIME:
        return _interpreter(lowered, path)
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    return OracleProgram(file.getvalue()).run


def _interpreter(
    lowered: Lowered, path: Path, backends: BackendRegistry | None = None
) -> Callable[[Sequence[Any]], list[Any]]:
    pte = path.with_suffix(".pte")
    with pte.open("wb") as file:
        write_program(lowered.emitted, file)
    program = read_program(pte)
    return Interpreter(
        program.method("forward"),
        backends or builtin_backends(),
        named_data=program.named_bytes(),
        shared={},
    ).run


def _delegates(lowered: Lowered) -> int:
    return sum(len(report.delegates) for report in lowered.reports.values())


def _second_call(program: Program, exported: ExportedProgram) -> list[list[Tensor]]:
    """Returns the inputs of a second call, of other sizes where the exported program supports them."""
    names = list(exported.graph_signature.user_inputs)
    nodes = {node.name: node for node in exported.graph.nodes if node.op == "placeholder"}
    sizes: dict[Any, int] = {}
    call = []
    for each, name in zip(program.arguments, names, strict=True):
        shape = nodes[name].meta["val"].shape if name in nodes else each.shape
        other = []
        for size in shape:
            if isinstance(size, torch.SymInt):
                expression = size.node.expr
                for symbol in expression.free_symbols:
                    limits = exported.range_constraints[symbol]
                    low, high = int(limits.lower), min(int(limits.upper), 9)
                    sizes.setdefault(symbol, max(low, min(high, low + (each.seed % 5))))
                other.append(int(expression.subs(sizes)))
            else:
                other.append(int(size))
        literal = program.literals.get(each.name)
        is_same = tuple(other) == each.shape
        if literal is not None and is_same:
            call.append(literal.clone())
        else:
            changed = Input(each.name, each.dtype, each.shape, each.values, each.seed + 1)
            call.append(make(changed, tuple(other)))
    # torch.export supports fewer sizes than their ranges: those for which its guards hold
    environments = {
        val.fake_mode.shape_env for node in nodes.values() if (val := node.meta["val"]) is not None
    }
    guards = [guard.expr for each in environments if each is not None for guard in each.guards]
    if any(guard.subs(sizes) == False for guard in guards):  # noqa: E712 - of sympy
        return []
    is_state = any(each.name.startswith("self.s") for each in program.inputs)
    return [call] if sizes or is_state else []


def _reasons(error: DelegatecError) -> str:
    return "; ".join(sorted({f"{problem.code} {problem.message}" for problem in error.diagnostics}))


def _last_lines(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if f"{os.sep}delegatec{os.sep}" in frame.filename] or frames
    where = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""
    return f"{type(error).__name__} at {where}: {str(error)[:300]}"
