# SPDX-License-Identifier: Apache-2.0
"""State that methods share, inputs that a program writes to, memory that the caller brings: at run time."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.extension.pybindings import _portable_lib
from torch._higher_order_ops.scan import scan
from torch.export import Dim

from delegatec.backends import builtin_backends
from delegatec.frontend.export import export
from delegatec.frontend.model import Method, Model
from delegatec.lowering import lower
from delegatec.program import ProgramOptions, weights_of, write_flat_tensors, write_program
from delegatec.program.reader import parse_program
from delegatec.verify.verification import verify_program
from tests.oracle.oracle import OracleProgram


def _write(methods: Mapping[str, Any], **options: Any) -> bytes:
    file = io.BytesIO()
    write_program(lower(methods, **options).emitted, file)
    return file.getvalue()


class Cache(torch.nn.Module):
    """Keys in a buffer: written by one method, read by another, cleared by a third."""

    def __init__(self) -> None:
        super().__init__()
        self.project = torch.nn.Linear(4, 4)
        self.register_buffer("keys", torch.rand(8, 4))
        self.register_buffer("length", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("scale", torch.full((4,), 2.0))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        self.get_buffer("keys").index_copy_(0, at, self.project(x))
        self.get_buffer("length").add_(1)
        return torch.softmax(x @ self.get_buffer("keys").T, -1)

    def score(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        wide = torch.relu(torch.relu(x.repeat(16, 2)) @ torch.ones(8, 4))
        return (x * self.get_buffer("scale")) @ self.get_buffer("keys").T, wide + self.get_buffer("length")

    def reset(self, x: torch.Tensor) -> torch.Tensor:
        self.get_buffer("keys").zero_()
        self.get_buffer("length").zero_()
        return x + 1


X, AT = torch.rand(1, 4), torch.tensor([2])
CALLS: list[tuple[str, list[torch.Tensor]]] = [
    ("score", [X]),
    ("forward", [X, AT]),
    ("score", [X]),
    ("forward", [X * 2, AT + 1]),
    ("score", [X + 1]),
    ("reset", [X]),
    ("score", [X]),
    ("forward", [X, AT]),
    ("score", [X]),
]


def _cache() -> Cache:
    torch.manual_seed(0)
    return Cache().eval()


def _methods() -> dict[str, Any]:
    methods = {"score": Method("score", (X,)), "reset": Method("reset", (X,))}
    return export(Model(_cache(), (X, AT), methods=methods))


def _calls(run: Any) -> None:
    eager = _cache()
    for name, inputs in CALLS:
        expected = getattr(eager, name)(*inputs)
        expected = list(expected) if isinstance(expected, tuple) else [expected]
        for a, e in zip(run(name, inputs), expected, strict=True):
            torch.testing.assert_close(a, e, atol=2e-6, rtol=1e-5)


def test_methods_share_state_where_the_runtime_shares_arenas(tmp_path: Path) -> None:
    """`_load_program` gives all methods the same arenas; loading one writes its initial state."""
    path = tmp_path / "cache.pte"
    path.write_bytes(_write(_methods()))
    program = _portable_lib._load_program(str(path))
    methods = {name: program.load_method(name) for name in ("forward", "score", "reset")}
    _calls(lambda name, inputs: [out.clone() for out in methods[name].call(inputs)])


def test_state_has_the_same_address_in_all_methods() -> None:
    program = parse_program(_write(_methods()))
    assert {method.arena_bytes[2] for method in program.methods} == {8 * 4 * 4 + 16}
    addresses = {
        (value.name, value.allocation.offset)
        for method in program.methods
        for value in method.values
        if getattr(value, "name", "") and value.allocation is not None and value.allocation.arena == 2  # type: ignore[union-attr]
    }
    assert sorted(name for name, _ in addresses) == ["keys", "length"]
    # initial bytes once for all
    assert [len(segment.data) for segment in program.segments if segment.use == "mutable data"] == [136]


class _Empty(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(0, 3))

    def forward(self, x: torch.Tensor) -> Any:
        return x + 1, self.rows * 2

    def step(self, x: torch.Tensor) -> torch.Tensor:
        self.rows += x
        return x * 2


def test_methods_share_state_without_elements(tmp_path: Path) -> None:
    path, row = tmp_path / "empty.pte", torch.arange(3.0)
    path.write_bytes(_write(export(Model(_Empty(), (row,), methods={"step": Method("step", (row,))}))))
    program = _portable_lib._load_program(str(path))
    methods = {name: program.load_method(name) for name in ("forward", "step")}
    assert torch.equal(methods["step"].call([row])[0], row * 2)
    after, rows = methods["forward"].call([row])
    assert torch.equal(after, row + 1) and rows.shape == (0, 3)


@pytest.mark.parametrize(("backend", "external"), [("portable", False), ("portable", True), ("mps", True)])
def test_verification_calls_methods_that_share_state(tmp_path: Path, backend: str, external: bool) -> None:
    pte, ptd = tmp_path / "cache.pte", tmp_path / "cache.ptd"
    methods = _methods()
    with open(ptd, "wb") as file:
        write_flat_tensors(weights_of(methods), file)
    pte.write_bytes(_write(methods, backend=backend, external_weights=external))
    data = ptd if external else None
    result = verify_program(pte, _methods(), builtin_backends(), atol=2e-6, rtol=1e-5, ptd=data)
    assert result.passed, result.table()


def test_state_of_one_method_is_separate() -> None:
    """A program of one method shares nothing, and has its state in its only arena."""
    program = parse_program(_write({"forward": _methods()["forward"]}))
    assert len(program.methods[0].arena_bytes) == 2


class Writes(torch.nn.Module):
    """Writes to one input, through a view too, and reads another."""

    def forward(self, cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        before = cache.sum()
        cache[0].copy_(x)
        cache.add_(1)
        return cache * 2 + before


@pytest.mark.parametrize("plan_inputs", [True, False])
@pytest.mark.parametrize("plan_outputs", [True, False])
def test_writes_to_inputs_are_visible_to_the_caller(plan_inputs: bool, plan_outputs: bool) -> None:
    options = ProgramOptions(plan_inputs=plan_inputs, plan_outputs=plan_outputs)
    x = torch.rand(3)
    exported = torch.export.export(Writes(), (torch.rand(2, 3), x))
    pte = _write({"forward": exported}, program_options=options)  # the runtime keeps pointers into it
    module = _portable_lib._load_for_executorch_from_buffer(pte)
    for _ in range(2):
        cache = torch.rand(2, 3)
        expected_cache = cache.clone()
        expected = Writes()(expected_cache, x)
        (actual,) = module.run_method("forward", [cache, x])
        torch.testing.assert_close(actual, expected)
        torch.testing.assert_close(cache, expected_cache)


class WritesRows(torch.nn.Module):
    """Writes rows to a buffer, and to an input of the caller."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 5, 3))

    def forward(self, cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        self.get_buffer("keys")[:, at] = x
        cache[at] = x[0]
        return self.get_buffer("keys").sum(0) + cache


@pytest.mark.parametrize("planned", [True, False])
@pytest.mark.parametrize("varies", [True, False])
def test_rows_are_written_in_place(planned: bool, varies: bool) -> None:
    example = torch.zeros(5, 3), torch.rand(2, 2, 3), torch.tensor([0, 1])
    rows = Dim("rows", min=1, max=4) if varies else None
    exported = torch.export.export(WritesRows(), example, dynamic_shapes=({}, {1: rows}, {0: rows}))
    options = ProgramOptions(plan_inputs=planned, plan_outputs=planned)
    pte = _write({"forward": exported}, program_options=options)
    names = {*parse_program(pte).methods[0].operators}
    assert "aten::index_put_" in names and not names & {"aten::index_put.out", "aten::copy_"}
    module, eager = _portable_lib._load_for_executorch_from_buffer(pte), WritesRows()
    for at in ([0, 3], [-1, 1], [2, -5], *([[3], [0, 4, -4]] if varies else [])):
        cache, x = torch.rand(5, 3), torch.rand(2, len(at), 3)
        expected_cache = cache.clone()
        expected = eager(expected_cache, x, torch.tensor(at))
        (actual,) = module.run_method("forward", [cache, x, torch.tensor(at)])
        torch.testing.assert_close(actual, expected)
        torch.testing.assert_close(cache, expected_cache)


class Branches(torch.nn.Module):
    """Control flow over an input that is written to, and over state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("step", torch.ones(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        step = self.get_buffer("step")
        y = torch.cond(x.sum() > 0, lambda x, step: x + step, lambda x, step: x * step, (x, step))
        last, rows = scan(lambda carry, row: (carry + row, carry * row), x[0], x)
        step.add_(1)
        x.mul_(3)
        return y, y, last, rows, step + 0


@pytest.mark.parametrize("planned", [True, False])
def test_control_flow_in_memory_of_the_caller(planned: bool) -> None:
    exported = torch.export.export(Branches(), (torch.rand(4, 3),))
    options = ProgramOptions(plan_inputs=planned, plan_outputs=planned)
    pte = _write({"forward": exported}, program_options=options)
    module, eager = _portable_lib._load_for_executorch_from_buffer(pte), Branches()
    for sign in (1, -1, 1):
        actual_x = torch.rand(4, 3) * sign
        expected_x = actual_x.clone()
        actual = module.run_method("forward", [actual_x])
        for a, e in zip(actual, eager(expected_x), strict=True):
            torch.testing.assert_close(a, e)
        torch.testing.assert_close(actual_x, expected_x)


def test_verification_compares_inputs_that_are_written_to(tmp_path: Path) -> None:
    pte = tmp_path / "writes.pte"
    inputs = (torch.rand(2, 3), torch.rand(3))
    methods = {"forward": torch.export.export(Writes(), inputs)}
    pte.write_bytes(_write({"forward": torch.export.export(Writes(), inputs)}))
    result = verify_program(pte, methods, builtin_backends(), atol=1e-6, rtol=1e-5)
    assert result.passed and {r.output for r in result.results} == {0, 1}

    class Reads(torch.nn.Module):
        def forward(self, cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            new = torch.cat([x[None], cache[1:]]) + 1
            return new * 2 + cache.sum()

    pte.write_bytes(_write({"forward": torch.export.export(Reads(), inputs)}))
    result = verify_program(pte, methods, builtin_backends(), atol=1e-6, rtol=1e-5)
    assert {(d.code, "output 1" in d.message) for d in result.diagnostics} == {("DC502", True)}


class Shapes(torch.nn.Module):
    """Outputs of every kind: computed, a view of it, twice the same, an input, a constant, and a scalar."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(3))

    def forward(self, x: torch.Tensor, n: int) -> Any:
        y = torch.relu(x.view(-1, 3) * self.weight)
        z = y.unsqueeze(0)
        return {"y": y, "z": z, "again": (y, x), "weight": self.weight, "n": n, "last": (z + 1).view(-1)}


@pytest.mark.parametrize("plan_inputs", [True, False])
@pytest.mark.parametrize("plan_outputs", [True, False])
def test_memory_of_inputs_and_outputs_is_the_callers_choice(plan_inputs: bool, plan_outputs: bool) -> None:
    model, example = Shapes().eval(), (torch.randn(4, 3), 7)
    shapes = {"x": {0: Dim("rows", max=6)}, "n": None}
    exported = torch.export.export(model, example, dynamic_shapes=shapes)
    options = ProgramOptions(plan_inputs=plan_inputs, plan_outputs=plan_outputs)
    pte = _write({"forward": exported}, program_options=options)
    module = _portable_lib._load_for_executorch_from_buffer(pte)
    meta = module.method_meta("forward")
    assert meta.input_tensor_meta(0).is_memory_planned() == plan_inputs
    tensors = [i for i in range(meta.num_outputs()) if i != 5]
    planned = {meta.output_tensor_meta(i).is_memory_planned() for i in tensors}
    assert planned == {plan_outputs}
    runtime = OracleProgram(pte)
    for rows in (4, 6, 1):
        x = torch.randn(rows, 3)
        result = model(x, 7)
        expected = [result["y"], result["z"], *result["again"], result["weight"], 7, result["last"]]
        for a, e in zip(runtime.run([x, 7]), expected, strict=True):
            torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(e))


class _Unchanged(torch.nn.Module):
    """A buffer of which only a view is read, and which keeps its value."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.rand(4, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.get_buffer("rows")
        result = torch.bmm(x, rows.view(1, 3, 4))
        rows.copy_(rows)
        return result


def test_the_initial_state_of_views_alone() -> None:
    module, x = _Unchanged(), torch.rand(1, 2, 3)
    program = OracleProgram(_write(export(Model(module, (x,)))))
    for _ in range(2):
        torch.testing.assert_close(program.run([x])[0], module(x))
