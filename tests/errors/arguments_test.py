# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments of the Python functions: code, and what was expected."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import delegatec
from delegatec.diagnostics import DelegatecError
from delegatec.frontend.export import export
from delegatec.program import ProgramOptions, write_program

NET, X = torch.nn.Linear(3, 3), (torch.rand(2, 3),)
Dim = torch.export.Dim


def exported(shapes: Any, module: torch.nn.Module = NET, inputs: tuple[Any, ...] = X) -> object:
    return export(delegatec.Model(module, inputs, dynamic_shapes=shapes))


def emitted() -> Any:
    return delegatec.lower(export(delegatec.Model(NET, X))).emitted


class Nested(torch.nn.Module):
    def forward(self, pair: tuple[torch.Tensor, ...], extra: dict[str, torch.Tensor]) -> torch.Tensor:
        return pair[0] + extra["y"]


NESTED = ((X[0],), {"y": X[0]})

CASES: dict[str, tuple[Callable[[], object], str, str]] = {
    "path for a file": (lambda: write_program(emitted(), "a.pte"), "DC415", 'open(path, "wb")'),  # type: ignore[arg-type]
    "not a program": (lambda: write_program(NET, io.BytesIO()), "DC415", "has type Linear"),  # type: ignore[arg-type]
    "no checkpoint": (lambda: delegatec.load_checkpoint(NET, None), "DC415", "the path of a data file"),  # type: ignore[arg-type]
    "no module": (lambda: delegatec.load_checkpoint(None, "a"), "DC415", "a torch.nn.Module"),  # type: ignore[arg-type]
    "no path": (lambda: delegatec.data_path(3), "DC415", "the path of a data file"),  # type: ignore[arg-type]
    "function": (
        lambda: delegatec.Model(NET, methods={"a": delegatec.Method(torch.relu, X)}),  # type: ignore[arg-type]
        "DC108",
        "the name of a method of the module",
    ),
    "strict": (lambda: delegatec.Model(NET, X, strict="yes"), "DC108", "True or False"),  # type: ignore[arg-type]
    "alignment": (lambda: ProgramOptions("16"), "DC310", "segment_alignment has type str"),  # type: ignore[arg-type]
    "flag": (lambda: ProgramOptions(plan_inputs="yes"), "DC310", "expected: of type bool"),  # type: ignore[arg-type]
    "bound": (lambda: exported(({0: Dim("b", max=2**40)},)), "DC114", "has the upper bound 1099511627776"),
    "specs": (lambda: exported(3), "DC113", "dynamic_shapes has type int"),
    "dimension": (lambda: exported(({5: Dim("b", max=4)},)), "DC113", "[0] has the key 5; the tensor has 2"),
    "name": (lambda: exported({"input": {"b": Dim("b", max=4)}}), "DC113", "['input'] has the key 'b'"),
    "length": (lambda: exported(([Dim("b", max=4)],)), "DC113", "[0] has 1 items"),
    "number": (lambda: exported((4,)), "DC113", "dynamic_shapes[0] has type int"),
    "nested": (
        lambda: exported((({3: Dim("b", max=4)},), {"y": {}}), Nested(), NESTED),
        "DC113",
        "dynamic_shapes[0][0] has the key 3",
    ),
    "outside": (lambda: exported(({0: Dim("b", min=5, max=8)},)), "DC113", "2 not in range [5, 8]\n"),
}


@pytest.mark.parametrize("name", CASES)
def test_wrong_arguments(name: str) -> None:
    call, code, words = CASES[name]
    with pytest.raises(DelegatecError) as caught:
        call()
    (problem,) = caught.value.diagnostics
    assert problem.code == code and words in str(caught.value)


def test_right_dynamic_shapes() -> None:
    batch = Dim("b", max=4)
    for shapes in (
        ({0: batch},),
        ((batch, None),),
        [[batch, None]],
        {"input": {0: batch}},
        (None,),
        {"input": None},
    ):
        assert exported(shapes)
    assert exported((({0: batch},), {"y": {0: batch}}), Nested(), NESTED)


def test_checkpoints_that_run_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"weight": torch.rand(3, 3), "hook": os.getcwd}, "a.pt")
    with pytest.raises(DelegatecError, match=r"it is a pickle of .*, which reading would run") as caught:
        delegatec.load_checkpoint(NET, "a.pt")
    assert "weights_only" not in str(caught.value)
    Path("folder").mkdir()
    with pytest.raises(DelegatecError, match="cannot read checkpoint folder: it is a directory"):
        delegatec.load_checkpoint(NET, "folder")
