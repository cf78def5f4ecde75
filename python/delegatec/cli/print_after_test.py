# SPDX-License-Identifier: Apache-2.0
"""`--print-after` prints programs after passes, also of a backend; `--verify-passes` checks them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextvars import Context

import pytest
import torch

from delegatec.cli.print_after import printing_after, verifying_passes
from delegatec.delegation import BackendRegistry, CompileSpec, PartitionView
from delegatec.delegation.testing import EagerBackend
from delegatec.edge import EdgeProgram, to_edge
from delegatec.edge.passes.pass_manager import Pass, run_pass
from delegatec.edge.testing import export
from delegatec.lowering import lower

aten = torch.ops.aten


def sines_become_cosines(program: EdgeProgram) -> bool:
    found = program.graph.find_nodes(op="call_function", target=aten.sin.default)
    for node in found:
        node.target = aten.cos.default
    return bool(found)


class Editing(EagerBackend):
    """A backend with a pass."""

    def passes(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> Sequence[Pass]:
        return [sines_become_cosines]


def printed(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return re.split("^# ", capfd.readouterr().err, flags=re.MULTILINE)[1:]


def test_programs_are_printed_after_the_named_passes(capfd: pytest.CaptureFixture[str]) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(x).sin()

    with printing_after(["decompose", "fold_casts", "sines_become_cosines", "to_backend"]):
        exported = export(model, torch.ones(2))
        lower({"main": exported}, "eager", registry=BackendRegistry([Editing()]))
    texts = printed(capfd)
    titles = [text.split("\n")[0] for text in texts]
    assert titles[:2] == ["decompose:", "fold_casts did not change main"]
    assert titles[-2:] == ["sines_become_cosines:", "to_backend:"]
    decomposed = next(text for text in texts if text.startswith("decompose:"))
    assert "\nmain(%args_0: f32[2]):\n" in decomposed and "aten.sigmoid.default" in decomposed
    edited = next(text for text in texts if text.startswith("sines_become_cosines:"))
    assert "aten.cos.default" in edited and "aten.sin" not in edited
    assert "delegatec_call_delegate" in texts[-1]
    (sigmoid,) = [line for line in decomposed.splitlines() if "aten.sigmoid.default" in line]
    assert re.search(r" by edge\.legalize\.rules\.\w+\._silu$", sigmoid)


def test_all_means_every_pass(capfd: pytest.CaptureFixture[str]) -> None:
    with printing_after(["all"]):
        lower({"main": export(torch.relu, torch.ones(2))})
    texts = printed(capfd)
    assert texts[0].startswith("lower_complex:\nmain(") and texts[-1].startswith("legalize:\nmain(")
    assert "eliminate_dead_code did not change main\n" in texts


def values_are_lost(program: EdgeProgram) -> bool:
    for node in program.graph.find_nodes(op="call_function", target=aten.sin.default):
        del node.meta["val"]
    return True


def test_passes_are_verified_on_request() -> None:
    def run(is_wanted: bool) -> None:
        program = to_edge(export(torch.sin, torch.ones(2)))
        with verifying_passes(is_wanted):
            run_pass(program, values_are_lost)

    # A separate context is without the verification of every test.
    Context().run(run, False)
    with pytest.raises(AssertionError, match="invalid program after values_are_lost"):
        Context().run(run, True)


def test_nothing_is_printed_by_default(capfd: pytest.CaptureFixture[str]) -> None:
    with printing_after([]):
        lower({"main": export(torch.relu, torch.ones(2))})
    assert capfd.readouterr().err == ""
