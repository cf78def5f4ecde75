# SPDX-License-Identifier: Apache-2.0
"""A case of the peer's Arm suite, ready to lower.

The peer's own stages quantize and export it, and compute the results to compare with.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import logging
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from tests.peer.arm.collection import ArmCase

_HARNESS: Final = "executorch.backends.test.harness"
_TESTER: Final = "executorch.backends.arm.test.tester"
_COMPARE: Final = "run_method_and_compare_outputs"

# Of the peer's flags for Vela -> our option.
_FLAGS: Final = {"--system-config": "system_config", "--memory-mode": "memory_mode"}


class CaseError(Exception):
    """The case cannot be quantized, exported or run: torch or the peer's quantizer raises."""


@dataclass(frozen=True)
class Tolerance:
    """How a test compares results.

    Attributes:
        absolute: its `atol`.
        relative: its `rtol`.
        qtol: in quantization steps of the output.
        frobenius: bound of the relative Frobenius norm of the error against the model before quantization.
        cosine: bound of the cosine similarity with it.
    """

    absolute: float = 1e-3
    relative: float = 1e-3
    qtol: float = 0
    frobenius: float | None = None
    cosine: float | None = None


@dataclass(frozen=True)
class PreparedCase:
    """A case to lower.

    Attributes:
        name: as in `ArmCase`.
        kind: as in `ArmCase`.
        specification: what it is lowered for, like "TOSA-1.0+INT+int16".
        options: our options for the target, of the Ethos-U kinds.
        program: the exported program.
        inputs: of the call.
        wanted: the results of the model, quantized if the program is; none if the test does not compare.
        scales: of the quantized outputs; None for others.
        original: the results of the model before quantization, if the test compares with them.
        parameters: the peer's description of the quantization of outputs.
        tolerance: of the comparison; None if the test does not compare.
        kept: the operators that must not be delegated, by the peer's names -> how many.
        delegates: how many delegates the test expects.
        expected: the reason why the peer expects its own failure, if it does.
    """

    name: str
    kind: str
    specification: str
    options: dict[str, str]
    program: ExportedProgram
    inputs: tuple[Any, ...]
    wanted: list[Any]
    scales: list[Any] = field(default_factory=list)
    original: list[Any] | None = None
    parameters: list[Any] = field(default_factory=list)
    tolerance: Tolerance | None = None
    kept: dict[str, int] = field(default_factory=dict)
    delegates: int = 1
    expected: str = ""

    def compare(self, results: Sequence[Any]) -> str:
        """Compares results as the peer's tests do; returns the difference, or nothing."""
        if self.tolerance is None:
            return ""
        if len(results) != len(self.wanted):
            return f"{len(results)} results instead of {len(self.wanted)}"
        bounds = self.tolerance
        compare = importlib.import_module(f"{_HARNESS}.tester").Tester._compare_outputs
        try:
            for result, wanted, scale in zip(results, self.wanted, self.scales, strict=False):
                if isinstance(wanted, torch.Tensor):
                    compare(wanted, result, scale, bounds.absolute, bounds.relative, bounds.qtol)
            return self._compare_with_original(results)
        except (AssertionError, RuntimeError) as error:
            return " ".join(str(error).split()[:40])

    def _compare_with_original(self, results: Sequence[Any]) -> str:
        bounds, original = self.tolerance, self.original
        # A loss of the quantizer is not one of the compiler.
        if bounds is None or original is None or self._drift(self.wanted):
            return ""
        return self._drift(results)

    def _drift(self, results: Sequence[Any]) -> str:
        assert self.tolerance is not None and self.original is not None
        utilities = importlib.import_module(f"{_TESTER}.analyze_output_utils")
        bounds = (self.tolerance.frobenius, self.tolerance.cosine)
        for result, original, parameters in zip(results, self.original, self.parameters, strict=False):
            try:
                utilities.compare_rel_frobenius_and_cosine_similarity(
                    original, result, parameters, *bounds, True
                )
            except AssertionError as error:
                return str(error)
        return ""


def prepare(case: ArmCase) -> PreparedCase:
    """Runs the peer's quantizer and export, and the model.

    Raises:
        CaseError: one of them raises.
    """
    level = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _prepare(case)
    except Exception as error:
        raise CaseError(f"{type(error).__name__}: {error}") from error
    finally:
        logging.disable(level)


def _prepare(case: ArmCase) -> PreparedCase:
    pipeline = case.pipeline
    stages = {stage.id: stage for stage in pipeline._stages}
    types = importlib.import_module(f"{_HARNESS}.stages").StageType
    for name in ("quantize", "export"):
        if name in stages:
            stages[name]()
    tester = pipeline.tester
    program = tester.stages[types.EXPORT].artifact
    quantized = tester.stages.get(types.QUANTIZE)
    reference = quantized if quantized is not None else tester.stages[types.INITIAL_MODEL]
    compared = stages.get(_COMPARE)
    chosen = dict(compared.kwargs) if compared is not None else {}
    inputs = tuple(
        chosen.get("inputs") or (compared.args[0] if compared and compared.args else pipeline.test_data)
    )
    tolerance = _tolerance(chosen) if compared is not None else None
    prepared = PreparedCase(
        case.name,
        case.kind,
        _specification(str(tester.compile_spec.tosa_spec)),
        _options(tester.compile_spec),
        program,
        copy.deepcopy(inputs),
        # Eager mode lacks operators of float8, which the test does not run either.
        _run(reference, inputs) if tolerance is not None else [],
        tolerance=tolerance,
        expected=case.expected,
    )
    if case.kind == "refused":
        counts = dict(stages["check_count.exir"].args[0])
        delegates = counts.pop("torch.ops.higher_order.executorch_call_delegate", 0)
        kept = {name: count for name, count in counts.items() if count}
        return replace(prepared, kept=kept, delegates=delegates)
    parameters = _parameters(program)
    prepared = replace(
        prepared, parameters=parameters, scales=[getattr(each, "scale", None) for each in parameters]
    )
    drift = stages.get(f"{_COMPARE}.original_model")
    if "compare_callback" in chosen and prepared.tolerance is not None:
        # The test compares with the model before quantization alone.
        drift, prepared = compared, replace(prepared, tolerance=Tolerance(absolute=math.inf))
    if drift is None or prepared.tolerance is None:
        return prepared
    bounds = inspect.getclosurevars(drift.kwargs["compare_callback"]).nonlocals
    bounded = replace(
        prepared.tolerance, frobenius=bounds["frobenius_threshold"], cosine=bounds["cosine_threshold"]
    )
    original = _run(tester.stages[types.INITIAL_MODEL], inputs)
    return replace(prepared, original=original, tolerance=bounded)


def _specification(text: str) -> str:
    """Returns a specification with the names of Arm's validator.

    The peer's mxfp has convolutions and constants of float8, which are separate extensions.
    """
    return f"{text}+mxfp_conv+fp8e4m3+fp8e5m2" if "mxfp" in text.lower() else text


def _tolerance(chosen: dict[str, Any]) -> Tolerance | None:
    if not chosen.get("compare_outputs", True):
        return None
    default = Tolerance()
    return Tolerance(
        chosen.get("atol", default.absolute),
        chosen.get("rtol", default.relative),
        chosen.get("qtol", default.qtol),
    )


def _options(compile_spec: Any) -> dict[str, str]:
    target = getattr(compile_spec, "target", None)
    if target is None:
        return {}
    flags = dict(flag.partition("=")[::2] for flag in compile_spec.compiler_flags)
    return {"accelerator": target, **{_FLAGS[flag]: value for flag, value in flags.items() if flag in _FLAGS}}


def _run(stage: Any, inputs: tuple[Any, ...]) -> list[Any]:
    with torch.no_grad():
        results = stage.run_artifact(copy.deepcopy(inputs))
    return [
        each.detach().clone() if isinstance(each, torch.Tensor) else each
        for each in pytree.tree_leaves(results)
    ]


def _parameters(program: ExportedProgram) -> list[Any]:
    utilities = importlib.import_module("executorch.backends.arm.test.runner_utils")
    # By position: the peer's table is by node, and a program may return a node twice.
    found = utilities.get_output_quantization_params(program.graph.output_node())
    return [found.get(node) for node in program.graph.output_node().args[0]]
