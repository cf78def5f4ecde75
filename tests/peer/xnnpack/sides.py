# SPDX-License-Identifier: Apache-2.0
"""A case lowered by one of the compilers, run in the stock runtime, and compared with eager mode."""

from __future__ import annotations

import contextlib
import copy
import importlib
import io
import math
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from delegatec.diagnostics import DelegatecError
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import read_program
from delegatec.program.reader.model import DelegateCall, KernelCall
from tests.oracle.oracle import OracleProgram
from tests.peer.xnnpack.collection import PeerCase

RIGHT: Final = "right"
WRONG: Final = "wrong"
STOPS: Final = "stops"
FAILS: Final = "fails"
NONE: Final = "none"

PEER: Final = "peer"
OURS: Final = "ours"


@dataclass(frozen=True)
class Side:
    """The result of one compiler for a case.

    Attributes:
        result: RIGHT, WRONG, STOPS where the runtime does, FAILS where the compiler does, NONE where eager
            mode does.
        delegates: calls of delegates.
        left: names of the runtime's kernels that the program calls, in order.
        difference: the largest from eager mode, relative to the largest magnitude of an output.
        quantization_steps: the same in quantization steps of the output, 0 if it is not quantized.
        detail: the error, or the difference, if any.
    """

    result: str
    delegates: int = 0
    left: tuple[str, ...] = ()
    difference: float = 0.0
    quantization_steps: float = 0.0
    detail: str = ""


def side(case: PeerCase, compiler: str) -> Side:
    """Lowers a case by a compiler, runs it for all inputs, and compares."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wanted = [_eager(case.program, inputs) for inputs in case.inputs]
        except Exception as error:  # noqa: BLE001 - any error of torch
            return Side(NONE, detail=_text(error))
        try:
            with _silent():
                data = _COMPILERS[compiler](case)
        except Exception as error:  # noqa: BLE001 - any error of a compiler
            return Side(FAILS, detail=_text(error))
        delegates, left = _calls(data)
        try:
            results = [OracleProgram(data).run(pytree.tree_leaves(inputs)) for inputs in case.inputs]
        except RuntimeError as error:
            return Side(STOPS, delegates, left, detail=_text(error))
    return _judged(case, wanted, results, delegates, left)


def _judged(
    case: PeerCase,
    wanted: Sequence[tuple[Any, float | None]],
    results: Sequence[Any],
    delegates: int,
    left: tuple[str, ...],
) -> Side:
    """Compares as the peer's tests do."""
    compare = importlib.import_module("executorch.backends.test.harness").Tester._compare_outputs
    differences = [0.0]
    quantization_steps = 0.0
    detail = ""
    for (expected, scale), result in zip(wanted, results, strict=True):
        differences += map(difference, result, expected)
        if scale and expected[0].numel() and result[0].shape == expected[0].shape:
            quantization_steps = max(quantization_steps, float((result[0] - expected[0]).abs().max()) / scale)
        if all(isinstance(each, torch.Tensor) and not each.numel() for each in expected):
            detail = detail or ("" if max(differences) == 0.0 else "another shape or dtype")
            continue  # The peer's comparison takes the maximum of no elements.
        try:
            compare(tuple(expected), tuple(result), scale, case.absolute, case.relative, case.qtol)
        except (AssertionError, RuntimeError) as error:
            detail = detail or _text(error)
    worst = math.inf if any(map(math.isnan, differences)) else max(differences)
    return Side(WRONG if detail else RIGHT, delegates, left, worst, quantization_steps, detail)


def difference(result: Any, expected: Any) -> float:
    """Returns the largest difference relative to the largest magnitude; infinite if shape or dtype differ."""
    if not isinstance(expected, torch.Tensor) or not isinstance(result, torch.Tensor):
        return 0.0 if result == expected else math.inf
    if result.shape != expected.shape or result.dtype != expected.dtype:
        return math.inf
    if not expected.numel():
        return 0.0
    one, other = result.double(), expected.double()
    same = (one == other) | (one.isnan() & other.isnan())
    largest = float(torch.where(same, 0.0, (one - other).abs()).max())
    scale = float(other[other.isfinite()].abs().max()) if other.isfinite().any() else 0.0
    return largest / scale if scale else largest


def _eager(program: ExportedProgram, inputs: tuple[Any, ...]) -> tuple[list[Any], float | None]:
    """Returns the outputs, and the scale of a quantized one, as the peer's tests find it."""
    calculate = importlib.import_module("executorch.backends.test.harness").Tester._calculate_reference_output
    with torch.no_grad():
        outputs, scale = calculate(copy.deepcopy(program), copy.deepcopy(inputs))
    leaves = pytree.tree_leaves(outputs)
    return [each.clone() if isinstance(each, torch.Tensor) else each for each in leaves], scale


def _by_peer(case: PeerCase) -> bytes:
    importlib.import_module("executorch.kernels.quantized")  # Registers kernels that its programs may call.
    exir = importlib.import_module("executorch.exir")
    partition = importlib.import_module("executorch.backends.xnnpack.partition.xnnpack_partitioner")
    configs = importlib.import_module("executorch.backends.xnnpack.utils.configs")
    edge = exir.to_edge_transform_and_lower(
        copy.deepcopy(case.program),
        partitioner=case.partitioners or [partition.XnnpackPartitioner()],
        compile_config=configs.get_xnnpack_edge_compile_config(),
    )
    return bytes(edge.to_executorch().buffer)


def _by_us(case: PeerCase) -> bytes:
    file = io.BytesIO()
    write_program(lower({"forward": copy.deepcopy(case.program)}, "xnnpack").emitted, file)
    return file.getvalue()


_COMPILERS: Final[dict[str, Callable[[PeerCase], bytes]]] = {PEER: _by_peer, OURS: _by_us}


def _calls(data: bytes) -> tuple[int, tuple[str, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.pte"
        path.write_bytes(data)
        method = read_program(path).method("forward")
        instructions = [each for chain in method.chains for each in chain.instructions]
        left = tuple(method.operators[each.operator] for each in instructions if isinstance(each, KernelCall))
        return sum(isinstance(each, DelegateCall) for each in instructions), left


def _text(error: BaseException) -> str:
    if isinstance(error, DelegatecError):
        first = error.diagnostics[0]
        return f"{first.code} {first.message}"
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:200]


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Hides the output of the peer's passes."""
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
        yield
