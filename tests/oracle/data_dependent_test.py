# SPDX-License-Identifier: Apache-2.0
"""Models with sizes that depend on data, from the file that a user lowers, for every backend."""

from __future__ import annotations

import faulthandler
import io
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch.utils import _pytree as pytree

from delegatec.backends import builtin_backends
from delegatec.diagnostics import DelegatecError
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.lowering import Program, lower
from delegatec.program import write_program
from delegatec.program.kernels import empty
from delegatec.program.reader import parse_program
from delegatec.verify import Interpreter
from tests.oracle.core_found import FOUND
from tests.oracle.oracle import OracleProgram

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

# Those that run in the stock runtime, and those that run in reference executors.
_IN_RUNTIME = ("portable", "xnnpack")
_OTHERS = ("mlx", "mps", "vulkan", "tosa")
_OPTIONS = {"ethos_u.accelerator": "ethos-u55-128", "ethos_u.stage": "tosa"}

# Nothing else is left to a delegate: the rest of these models has sizes that it cannot compute.
_UNDELEGATED = {("number_of_both", name) for name in _OTHERS}
_UNDELEGATED |= {("number_of_rows", name) for name in ("mps", "tosa")}
_UNDELEGATED |= {("found_of_dynamic", name) for name in ("mps", "tosa")}


@pytest.fixture(scope="module", params=FOUND)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The name of a model, and its exported file."""
    case = FOUND[request.param]
    path = tmp_path_factory.mktemp("models") / f"{request.param}.pt2"
    archive.save(
        export(Model(_module(request.param), case.calls[0], dynamic_shapes=case.dynamic_shapes)), str(path)
    )
    return request.param, path


@pytest.mark.parametrize("backend", [*_IN_RUNTIME, *_OTHERS])
def test_results_are_those_of_eager_mode(model: tuple[str, Path], backend: str) -> None:
    name, path = model
    lowered = lower(archive.load(str(path)).methods, backend)
    delegates = sum(len(report.delegates) for report in lowered.reports.values())
    assert bool(delegates) == (backend != "portable" and (name, backend) not in _UNDELEGATED)
    for run in _runs(lowered, backend in _IN_RUNTIME):
        for call in FOUND[name].calls:
            with torch.no_grad():
                expected = pytree.tree_leaves(_module(name)(*(each.clone() for each in call)))
            torch.testing.assert_close(run(call), expected, equal_nan=True, atol=1e-5, rtol=1e-4)


def test_what_the_npu_does_not_support_stays_outside(model: tuple[str, Path]) -> None:
    """The models are in floating point, so that this is nearly everything; each operator has a reason.

    It is an error (DC424) if another backend takes nothing, either.
    """
    _, path = model
    try:
        lowered = lower(archive.load(str(path)).methods, ["ethos_u", "xnnpack"], _OPTIONS)
    except DelegatecError as error:
        assert [each.code for each in error.diagnostics] == ["DC424"]
        return
    (report,) = lowered.reports.values()
    assert report.delegates and all(each.message for each in report.rejections)


@pytest.mark.parametrize("name", ["extrema_of_found", "log_softmax_of_found", "selected_of_found"])
def test_the_interpreter_fails_where_a_kernel_does(name: str) -> None:
    """Without the rewrites that avoid it, a program that finds nothing ends the process, or fails."""
    ours, runtime = _unchanged(name)
    (none,) = (call for call in FOUND[name].calls if call[0].max() < 0)
    with pytest.raises(DelegatecError, match=r"DC505.*without elements"):
        ours(none)
    child = os.fork()
    if child == 0:
        faulthandler.disable()
        with suppress(RuntimeError):
            runtime(none)
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] != 0


@pytest.mark.parametrize("name", ["cat_beside_found", "stack_of_found"])
def test_the_interpreter_returns_the_shape_of_the_kernel(name: str) -> None:
    ours, runtime = _unchanged(name)
    (none,) = (call for call in FOUND[name].calls if call[0].max() < 0)
    shapes = [[each.shape for each in run(none)] for run in (ours, runtime)]
    assert shapes[0] == shapes[1] != [each.shape for each in pytree.tree_leaves(_module(name)(*none))]


def _unchanged(name: str) -> list[Callable[[Sequence[Any]], list[Any]]]:
    """Returns a model for the portable kernels, without the rewrites that avoid their defects."""
    case = FOUND[name]
    with patch.object(empty, "_may_be_empty", lambda sizes: False):
        methods = export(Model(_module(name), case.calls[0], dynamic_shapes=case.dynamic_shapes))
        return _runs(lower(methods, "portable"), in_runtime=True)


def _module(name: str) -> torch.nn.Module:
    torch.manual_seed(5)
    return FOUND[name].module().eval()


def _runs(lowered: Program, in_runtime: bool) -> list[Callable[[Sequence[Any]], list[Any]]]:
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    program = parse_program(file.getvalue())
    ours = Interpreter(
        program.method("forward"), builtin_backends(), named_data=program.named_bytes(), shared={}
    )
    return [ours.run, *([OracleProgram(file.getvalue()).run] if in_runtime else [])]
