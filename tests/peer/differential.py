# SPDX-License-Identifier: Apache-2.0
"""One case lowered by both compilers in both precisions, run from the blobs, compared with eager mode."""

from __future__ import annotations

import copy
import operator
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from executorch.exir import EdgeProgramManager
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from delegatec.backends import builtin_backends
from delegatec.backends.common.testing import Compiled
from delegatec.backends.mps.reference.unspecified import DEFAULT, STRICT, Unspecified
from delegatec.delegation import to_backend
from delegatec.delegation.delegates.call_delegate import call_delegate
from delegatec.delegation.delegates.operators import operator_name
from delegatec.delegation.partitioning.composites import decompose_for, decompose_rejected
from delegatec.diagnostics import DelegatecError
from delegatec.edge import KERNEL_COMPOSITES, to_edge
from tests.peer.blobs import NormalForm, normal_form
from tests.peer.lowering import BlobInterpreter, PeerProgram, peer_edge
from tests.peer.suite import PeerCase

PRECISIONS: Final = ("fp32", "fp16")

RIGHT: Final = "right"
WRONG: Final = "wrong"
STOPS: Final = "stops"
FAILS: Final = "fails"

# Of the largest magnitude of an output; float16 has 11 bits, and a few operations in a row lose some.
_TOLERANCE: Final = {"fp32": 1e-4, "fp16": 2e-2}

Counts = Counter[str]


@dataclass(frozen=True)
class Side:
    """The result of one compiler for a case.

    Attributes:
        delegates: how many.
        left: names of operators that are not delegated, in order.
        compute: operations of all delegates that compute -> how often; constants are folded.
        moves: operations that move data -> how often.
        constants: as in `NormalForm`.
        result: RIGHT, WRONG, STOPS where the runtime does, FAILS where the compiler does.
        detail: the message of the error, if any.
        values: the results, if any.
        copies: whether all operators that are not delegated only move data.
        open: unspecified behavior of MPSGraph that its results depend on, for these inputs.
    """

    delegates: int = 0
    left: tuple[str, ...] = ()
    compute: Counts | None = None
    moves: Counts | None = None
    constants: Counter[Any] | None = None
    result: str = FAILS
    detail: str = ""
    values: tuple[Any, ...] = ()
    copies: bool = False
    open: str = ""


@dataclass(frozen=True)
class Comparison:
    """Both sides of a case in one precision.

    Attributes:
        precision: of `PRECISIONS`.
        peer: the peer's.
        ours: ours.
    """

    precision: str
    peer: Side
    ours: Side


def compare(case: PeerCase) -> dict[str, Comparison] | None:
    """Lowers and runs a case; none if torch itself cannot run or export it.

    Returns:
        Precision -> both sides.
    """
    try:
        exported = _export(case)
        eager = _flat(case.module.eval(), case.args)
    except Exception:  # noqa: BLE001 - any error of torch
        return None
    half = _in_half(case)
    # As the helpers of the peer's tests do: the second export makes buffers of the constants of the first.
    edge = _edge(exported, case.args)
    found = {}
    for precision in PRECISIONS:
        references = [eager] if precision == "fp32" or half is None else [eager, half]
        judge = _Judge(references, _TOLERANCE[precision], defined=not _reads_uninitialized(exported))
        peer = _peer(edge, case.args, precision, judge)
        found[precision] = Comparison(precision, peer, _ours(_export(case), case.args, precision, judge))
    return found


@dataclass(frozen=True)
class _Judge:
    references: Sequence[Sequence[Any]]
    tolerance: float
    defined: bool

    def __call__(self, values: Sequence[Any]) -> str:
        agree = any(same_values(values, reference, self.tolerance) for reference in self.references)
        return RIGHT if agree or not self.defined else WRONG


def same_values(values: Sequence[Any], reference: Sequence[Any], tolerance: float) -> bool:
    """Whether two lists of tensors and scalars have one shape, dtype, and the same values.

    Args:
        values: the one.
        reference: the other.
        tolerance: how far floating-point values may be apart, as a part of the largest finite magnitude.
    """
    if len(values) != len(reference):
        return False
    return all(_same(v, r, tolerance) for v, r in zip(values, reference, strict=True))


def _same(value: Any, reference: Any, tolerance: float) -> bool:
    if not isinstance(value, torch.Tensor) or not isinstance(reference, torch.Tensor):
        return bool(value == reference)
    if value.shape != reference.shape or value.dtype != reference.dtype:
        return False
    if not value.is_floating_point():
        return torch.equal(value, reference)
    finite = reference[reference.isfinite()].abs()
    scale = float(finite.max()) if finite.numel() else 0.0
    if reference.dtype == torch.float16:
        tolerance = max(tolerance, _TOLERANCE["fp16"])
    return torch.allclose(value, reference, rtol=0, atol=tolerance * scale + 1e-6, equal_nan=True)


def _export(case: PeerCase) -> ExportedProgram:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(case.module.eval(), copy.deepcopy(case.args))


def _flat(module: torch.nn.Module, args: tuple[Any, ...]) -> list[Any]:
    with torch.no_grad():
        return pytree.tree_leaves(module(*copy.deepcopy(args)))


def _in_half(case: PeerCase) -> list[Any] | None:
    """Returns eager mode's results in float16, in the dtypes of the model; none if ATen lacks a kernel."""
    halves = pytree.tree_map_only(torch.Tensor, lambda t: _as(t, torch.float32, torch.float16), case.args)
    try:
        values = _flat(copy.deepcopy(case.module).half(), halves)
        dtypes = [value.dtype for value in _flat(case.module, case.args)]
        return [value.to(dtype) for value, dtype in zip(values, dtypes, strict=True)]
    except (RuntimeError, NotImplementedError, AttributeError, IndexError):
        return None


def _as(tensor: torch.Tensor, old: torch.dtype, new: torch.dtype) -> torch.Tensor:
    return tensor.to(new) if tensor.dtype == old else tensor


def _reads_uninitialized(exported: ExportedProgram) -> bool:
    return any(str(node.target).startswith("aten.empty") for node in exported.graph.nodes)


def _edge(exported: ExportedProgram, args: tuple[Any, ...]) -> EdgeProgramManager | Side:
    try:
        return peer_edge(torch.export.export(exported.module(), copy.deepcopy(args)))
    except Exception as error:  # noqa: BLE001 - any error of the peer
        return _failed(error)


def _failed(error: Exception) -> Side:
    return Side(detail=f"{type(error).__name__}: {error}")


def _peer(edge: EdgeProgramManager | Side, args: tuple[Any, ...], precision: str, judge: _Judge) -> Side:
    if isinstance(edge, Side):
        return edge
    try:
        program = PeerProgram(edge, fp16=precision == "fp16")
    except Exception as error:  # noqa: BLE001 - any error of the peer
        return _failed(error)

    def run(unspecified: Unspecified) -> list[Any]:
        return program(*copy.deepcopy(args), unspecified=unspecified)

    return _side(program.blobs, program.left, run, judge)


def _ours(exported: ExportedProgram, args: tuple[Any, ...], precision: str, judge: _Judge) -> Side:
    try:
        compiled = compile_as_product(exported, precision)
    except DelegatecError as error:
        return Side(detail=str(error))
    nodes = [node for node in compiled.program.graph.nodes if node.op == "call_function"]
    left = [operator_name(n) for n in nodes if n.target not in (call_delegate, operator.getitem)]
    rules = {rejection.rule for rejection in compiled.report.rejections}
    program = compiled.program
    written = len(program.mutated_inputs())

    def run(unspecified: Unspecified) -> list[Any]:
        inputs = iter(pytree.tree_leaves(copy.deepcopy(args)))
        values = [
            program.constants[node.name] if node.name in program.constants else next(inputs)
            for node in program.placeholders()
        ]
        return list(BlobInterpreter(program.graph_module, unspecified).run(*values))[written:]

    return _side(compiled.blobs(), left, run, judge, copies=rules == {"trivial"})


def compile_as_product(exported: ExportedProgram, precision: str) -> Compiled:
    """Runs `lower` without the check of kernels, which the operators of quantization do not have."""
    registry = builtin_backends()
    backend = registry.resolve("mps")
    preserved = backend.preserved_operators()
    partitioner = backend.partitioner(backend.compile_specs({"precision": precision}))
    program = to_edge(exported, preserve=preserved | KERNEL_COMPOSITES)
    decompose_for(program, partitioner, preserved)
    compiled = Compiled(*to_backend(program, partitioner, registry=registry))
    decompose_rejected(compiled.program, preserved)
    return compiled


def _side(
    blobs: Sequence[bytes],
    left: Sequence[str],
    run: Callable[[Unspecified], list[Any]],
    judge: _Judge,
    *,
    copies: bool = False,
) -> Side:
    forms: list[NormalForm] | None
    try:
        forms = [normal_form(blob) for blob in blobs]
    except (DelegatecError, RuntimeError):
        forms = None
    try:
        values = tuple(run(DEFAULT))
        result, detail = judge(values), ""
    except DelegatecError as error:
        values, result, detail = (), STOPS, error.diagnostics[0].message
    return Side(
        delegates=len(blobs),
        left=tuple(left),
        compute=None if forms is None else sum((form.compute for form in forms), Counter()),
        moves=None if forms is None else sum((form.moves for form in forms), Counter()),
        constants=None if forms is None else sum((form.constants for form in forms), Counter()),
        result=result,
        detail=detail,
        values=values,
        copies=copies,
        open=_open(run) if result == RIGHT else "",
    )


def _open(run: Callable[[Unspecified], list[Any]]) -> str:
    try:
        run(STRICT)
    except DelegatecError as error:
        return error.diagnostics[0].message.removeprefix("unspecified behavior of MPSGraph: ")
    return ""
