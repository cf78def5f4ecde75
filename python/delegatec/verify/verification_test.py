# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim, ExportedProgram, export

from delegatec.backends import builtin_backends
from delegatec.diagnostics import DelegatecError
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.samples.inputs import trials
from delegatec.verify import Verification, verify_program


class Scaled(torch.nn.Module):
    """A product with a keyword argument, and a count."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = torch.nn.Parameter(torch.full((4,), factor))

    def forward(self, x: torch.Tensor, *, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"scaled": x * self.factor, "ids": ids + 1}


def _exported(factor: float) -> ExportedProgram:
    return export(Scaled(factor), (torch.tensor([1.0, -2.0, 0.5, 4.0]),), {"ids": torch.tensor([3, 5, 7])})


def _verify(folder: Path, built: float, eager: float, **tolerance: float) -> Verification:
    path = folder / "program.pte"
    with open(path, "wb") as file:
        write_program(lower({"forward": _exported(built)}).emitted, file)
    options: dict[str, Any] = {"atol": 1e-6, "rtol": 1e-6, **tolerance}
    return verify_program(path, {"forward": _exported(eager)}, builtin_backends(), **options)


def test_a_right_program(tmp_path: Path) -> None:
    result = _verify(tmp_path, 3.0, 3.0)
    assert result.passed and not result.diagnostics
    assert {r.trial for r in result.results} == {"example", "seed 1", "seed 2", "seed 3"}
    lines = result.table().splitlines()
    assert len(lines) == 3 and all(line.endswith("ok") for line in lines[1:])


def test_a_wrong_program_names_the_worst_element(tmp_path: Path) -> None:
    result = _verify(tmp_path, 3.0, 3.5)
    assert not result.passed
    first = result.diagnostics[0]
    assert first.code == "DC502"
    assert "example, output 0 ['scaled'] (float32[4]): 4 of 4 elements" in first.message
    assert "element [3] is 12, eager mode returns 14" in first.message
    assert "FAILED" in result.table()


class Nested(torch.nn.Module):
    """Results in containers, of which some are nothing."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"hidden": [x + 1, (None, x * self.factor)], "none": None, "length": x.shape[0]}


@pytest.mark.parametrize(("factor", "wrong"), [(2.0, False), (3.0, True)])
def test_nested_outputs_have_paths(tmp_path: Path, factor: float, wrong: bool) -> None:
    def exported(factor: float) -> ExportedProgram:
        shapes = ({0: Dim("n", min=2, max=8)},)
        return export(Nested(factor), (torch.tensor([1.0, 2.0, 3.0]),), dynamic_shapes=shapes)

    path = tmp_path / "program.pte"
    with open(path, "wb") as file:
        write_program(lower({"forward": exported(2.0)}).emitted, file)
    result = verify_program(path, {"forward": exported(factor)}, builtin_backends(), atol=1e-6, rtol=1e-6)
    assert {r.path for r in result.results} == {"['hidden'][0]", "['hidden'][1][1]", "['length']"}
    messages = [problem.message for problem in result.diagnostics]
    assert bool(messages) == wrong
    assert all("['hidden'][1][1]" in message for message in messages)


def test_a_tolerance_that_anything_would_meet(tmp_path: Path) -> None:
    result = _verify(tmp_path, 3e-9, 1e-9)
    assert [diagnostic.code for diagnostic in result.diagnostics] == ["DC508"]
    assert not result.passed


def test_a_program_of_another_model(tmp_path: Path) -> None:
    path = tmp_path / "program.pte"
    with open(path, "wb") as file:
        write_program(lower({"encode": _exported(1.0)}).emitted, file)
    with pytest.raises(DelegatecError, match="DC507"):
        verify_program(path, {"forward": _exported(1.0)}, builtin_backends(), atol=0, rtol=0)


def test_variations_keep_properties_that_a_model_relies_on() -> None:
    example, *varied = trials(_exported(1.0), 5)
    assert example.name == "example" and torch.equal(example.leaves[1], torch.tensor([3, 5, 7]))
    for trial in varied:
        x, ids = trial.leaves
        assert sorted(ids.tolist()) == [3, 5, 7]
        assert (x.dtype, x.shape) == (torch.float32, (4,))
        assert torch.equal(trial.args[0], x) and torch.equal(trial.kwargs["ids"], ids)
    assert len({tuple(trial.leaves[0].tolist()) for trial in varied}) == 5


@pytest.mark.parametrize("shape", [(), (1, 1)])
def test_flags_are_flipped(shape: tuple[int, ...]) -> None:
    class Flag(torch.nn.Module):
        def forward(self, x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
            return torch.where(flag, x, -x)

    exported = export(Flag(), (torch.ones(2), torch.zeros(shape, dtype=torch.bool)))
    flags = [bool(trial.leaves[1]) for trial in trials(exported, 3)]
    assert flags[:2] == [False, True] and not all(flags[1:])


def test_variations_are_the_same_every_time() -> None:
    first, second = list(trials(_exported(1.0), 3)), list(trials(_exported(1.0), 3))
    for a, b in zip(first, second, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(a.leaves, b.leaves, strict=True))


def test_dynamic_sizes_are_tried_at_their_ends() -> None:
    batch = Dim("batch", min=2, max=9)
    exported = export(torch.nn.ReLU(), (torch.randn(4, 3),), dynamic_shapes=({0: batch},))
    sizes = [tuple(trial.leaves[0].shape) for trial in trials(exported, 4)]
    assert sizes[:3] == [(4, 3), (2, 3), (9, 3)]
    assert all(2 <= size <= 9 for size, _ in sizes)


class Noisy(torch.nn.Module):
    """Adds noise to one of its results, and to state that another one reads."""

    def __init__(self, dtype: torch.dtype = torch.int64) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.total += torch.rand(3)
        drawn = torch.randint(5, (2,), dtype=self.dtype)
        return x * 2, x + torch.randn(3), self.total + 0, drawn


def test_random_values_have_a_dtype_and_a_shape(tmp_path: Path) -> None:
    exported = export(Noisy(), (torch.ones(3),))
    path = tmp_path / "noisy.pte"
    with path.open("wb") as file:
        write_program(lower({"forward": copy.deepcopy(exported)}).emitted, file)
    result = verify_program(path, {"forward": exported}, builtin_backends())
    assert result.passed
    verdicts = [row.split("  ")[-1].strip() for row in result.table().splitlines()[1:]]
    assert verdicts == ["ok", *["random, of this dtype and shape"] * 3]
    other = export(Noisy(torch.int32), (torch.ones(3),))
    wrong = verify_program(path, {"forward": other}, builtin_backends())
    assert {problem.code for problem in wrong.diagnostics} == {"DC503"}
