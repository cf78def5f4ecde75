# SPDX-License-Identifier: Apache-2.0
"""Programs in the C++ runner, compared with eager mode; its arenas, and its messages for mistakes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from delegatec.backends import builtin_backends
from delegatec.diagnostics import DelegatecError
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE
from delegatec.program.options import Memory, ProgramOptions
from delegatec.program.reader import read_program
from delegatec.report.arenas import arenas_of
from executorch_runner import RUNTIME
from executorch_runner.testing import insufficient_arenas, measured_arenas
from tests.runtimes.programs import Counter, counter, network, verified, written, zeros

_PARAMETERS = (1 / 128, 0, -128, 127, torch.int8)


@pytest.mark.parametrize("backend", ["portable", "xnnpack"])
@pytest.mark.parametrize("external", [False, True])
def test_tensors_and_scalars(tmp_path: Path, backend: str, external: bool) -> None:
    found = verified(tmp_path, network, RUNTIME, external=external, backend=backend)
    assert found.passed, found.table()
    calls = [(each.trial, each.output) for each in found.results if each.executor == "reference"]
    assert len(calls) >= 8
    assert calls == [(each.trial, each.output) for each in found.results if each.executor == RUNTIME.name]


@pytest.mark.parametrize("external", [False, True])
def test_state_and_writes_to_inputs(tmp_path: Path, external: bool) -> None:
    found = verified(tmp_path, counter, RUNTIME, external=external, backend="xnnpack")
    assert found.passed, found.table()
    written = [each for each in found.results if each.path == "(input 0)"]
    assert {each.executor for each in written} == {"reference", RUNTIME.name} and len(written) > 2


def test_zeros_in_poisoned_memory(tmp_path: Path) -> None:
    found = verified(tmp_path, zeros, RUNTIME)
    assert found.passed, found.table()
    assert (tmp_path / "p.pte").stat().st_size < 30_000


class Sum(torch.nn.Module):
    """The sum of an input and twice another."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + 2 * y


def test_one_tensor_as_two_inputs(tmp_path: Path) -> None:
    methods = {"forward": torch.export.export(Sum(), (torch.ones(3), torch.zeros(3)))}
    pte, _ = written(tmp_path, methods, backend="portable", external=False)
    x = torch.arange(3.0)
    (found,) = RUNTIME.load(str(pte), None, False).run("forward", [x, x])
    assert torch.equal(found, 3 * x)


def test_empty_inputs(tmp_path: Path) -> None:
    empty = torch.zeros(2, 0, 3)
    methods = {"forward": torch.export.export(Sum(), (empty, empty))}
    pte, _ = written(tmp_path, methods, backend="portable", external=False)
    (found,) = RUNTIME.load(str(pte), None, False).run("forward", [empty, empty])
    assert found.shape == empty.shape


class Quantized(torch.nn.Module):
    """Functions of one value, each quantized."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.count):
            x = DEQUANTIZE(QUANTIZE(torch.tanh(x), *_PARAMETERS), *_PARAMETERS)
        return x


@pytest.mark.parametrize("count", [4, 12])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4)])
def test_chains_of_quantized_functions(tmp_path: Path, count: int, shape: tuple[int, ...]) -> None:
    """The runtime 1.5.1 ended with "realloc(): invalid pointer" when it loaded a chain of ten operations."""
    module, x = Quantized(count), torch.full(shape, 0.5)
    methods = {"forward": torch.export.export(module, (x,))}
    pte, _ = written(tmp_path, methods, backend="xnnpack", external=False)
    (found,) = RUNTIME.load(str(pte), None, False).run("forward", [x])
    torch.testing.assert_close(found, module(x), rtol=0, atol=1 / 128)


class Mask(torch.nn.Module):
    """A mask of scores, from one of columns."""

    def forward(self, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        zeros = torch.zeros(1, 2, rows.shape[1], columns.shape[1])
        return torch.where(columns[:, None, None, :] > 0, zeros, -5.0)


class Function(torch.nn.Module):
    """A function of a tensor."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._function(x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.maximum(x.sin() * 0, x[:1]),
        lambda x: torch.minimum(0 / (x.cos() + 2), x[:1]),
        lambda x: torch.maximum(x[:1].cos(), x.clamp(1, 1)),
        lambda x: torch.maximum(x[0, 0] * torch.zeros(1, 1, 1), x[:, :1, :1]),
        lambda x: torch.minimum((x.sin() * 0).exp(), x[:1]),
        lambda x: torch.minimum(torch.zeros(1).expand(x.shape[0], 5, 4), x[:1, :1]),
    ],
)
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_products_with_zero(
    tmp_path: Path, function: Callable[[torch.Tensor], torch.Tensor], is_dynamic: bool
) -> None:
    """The runtime takes them for a number: a minimum or maximum with one lacked dimensions, or failed."""
    shapes = ({0: torch.export.Dim("batch", min=1, max=9)},) if is_dynamic else None
    module = Function(function)
    methods = {"forward": torch.export.export(module, (torch.randn(3, 5, 4),), dynamic_shapes=shapes)}
    pte, _ = written(tmp_path, methods, backend="xnnpack", external=False)
    program = RUNTIME.load(str(pte), None, False)
    for batch in (3, 9, 1) if is_dynamic else (3,):
        x = torch.randn(batch, 5, 4)
        (found,) = program.run("forward", [x])
        torch.testing.assert_close(found, module(x))


def test_broadcast_zeros(tmp_path: Path) -> None:
    """The runtime replaced their product with ones by a scalar, so that the result had no rows and heads."""
    batch, rows, columns = (torch.export.Dim(name, min=1, max=9) for name in ("batch", "rows", "columns"))
    shapes = {"rows": {0: batch, 1: rows}, "columns": {0: batch, 1: columns}}
    example = torch.randn(3, 4), torch.randn(3, 5)
    methods = {"forward": torch.export.export(Mask(), example, dynamic_shapes=shapes)}
    pte, _ = written(tmp_path, methods, backend="xnnpack", external=False)
    program = RUNTIME.load(str(pte), None, False)
    for sizes in ((3, 4, 5), (9, 9, 2), (1, 2, 9)):
        inputs = [torch.randn(sizes[0], sizes[1]), torch.randn(sizes[0], sizes[2])]
        (found,) = program.run("forward", inputs)
        assert torch.equal(found, Mask()(*inputs))


@pytest.mark.parametrize("backend", ["portable", "xnnpack"])
def test_outputs_in_the_memory_of_the_caller(tmp_path: Path, backend: str) -> None:
    methods = {"forward": torch.export.export(Sum(), (torch.ones(3), torch.zeros(3)))}
    options = ProgramOptions(plan_inputs=False, plan_outputs=False)
    pte, _ = written(tmp_path, methods, backend=backend, external=False, program_options=options)
    program = RUNTIME.load(str(pte), None, False)
    x, zero = torch.arange(3.0), torch.zeros(3)
    found = [program.run("forward", [x * factor, zero])[0] for factor in range(3)]
    assert torch.equal(torch.stack(found), torch.arange(3.0)[:, None] * x)


def test_results_do_not_change_with_later_calls(tmp_path: Path) -> None:
    methods = {"forward": torch.export.export(Sum(), (torch.ones(3), torch.zeros(3)))}
    pte, _ = written(tmp_path, methods, backend="portable", external=False)
    program = RUNTIME.load(str(pte), None, False)
    x, zero = torch.arange(3.0), torch.zeros(3)
    found = [program.run("forward", [x * factor, zero])[0] for factor in range(3)]
    assert torch.equal(torch.stack(found), torch.arange(3.0)[:, None] * x)


def test_backends(tmp_path: Path) -> None:
    assert RUNTIME.backends == ["XnnpackBackend"]
    with pytest.raises(DelegatecError, match=r"DC501.*executorch runner has no backend VulkanBackend"):
        verified(tmp_path, network, RUNTIME, backend="vulkan")


@pytest.mark.parametrize("backend", ["portable", "xnnpack"])
@pytest.mark.parametrize("make", [network, counter])
@pytest.mark.parametrize("external", [False, True])
def test_arenas_are_exact(tmp_path: Path, backend: str, make: Any, external: bool) -> None:
    pte, ptd = written(tmp_path, make(), backend=backend, external=external)
    computed = arenas_of(read_program(pte), builtin_backends(), has_weights=ptd is not None)
    for method, sizes in measured_arenas(pte, tmp_path, ptd).items():
        assert sizes["method"] > 0 and sizes["temporary"] > 0 and sizes["planned"][0] > 0
        arenas = computed[method]
        assert (arenas.method.bytes, arenas.temporary.bytes) == (sizes["method"], sizes["temporary"])
        problems = insufficient_arenas(pte, method, sizes, ptd)
        assert {"method", "temporary", "1"} <= problems.keys()
        assert [kind for kind, problem in problems.items() if "MemoryAllocationFailed" not in problem] == []


@pytest.mark.parametrize(("make", "first"), [(network, 4096), (counter, 64)])
def test_several_memories(tmp_path: Path, make: Any, first: int) -> None:
    """Values are in three memories, and state that methods share in one more, in both executors."""
    memories = (Memory("first", first), Memory("second", 4 * first), Memory("third", 2**20))
    options = ProgramOptions(memories=memories)
    found = verified(tmp_path, make, RUNTIME, program_options=options)
    assert found.passed, found.table()
    program = read_program(tmp_path / "p.pte")
    sizes = [method.arena_bytes[1:] for method in program.methods]
    assert all(0 < size[0] <= first and 0 < size[1] <= 4 * first for size in sizes)
    assert {len(size) for size in sizes} == {4 if make is counter else 3}
    for method, arenas in arenas_of(program, (), has_weights=False).items():
        given = {
            "method": arenas.method.bytes,
            "temporary": arenas.temporary.bytes,
            "planned": arenas.planned,
        }
        problems = insufficient_arenas(tmp_path / "p.pte", method, given)
        assert problems.keys() >= {"1"} and [kind for kind, problem in problems.items() if not problem] == []


def test_heap(tmp_path: Path) -> None:
    """XNNPACK packs weights while a program is loaded, and allocates its workspace in the first run."""
    found = {}
    for backend in ("portable", "xnnpack"):
        pte, _ = written(tmp_path, network(), backend=backend)
        RUNTIME.run([f"--program={pte}", f"--heap={tmp_path / 'heap.json'}"])
        (found[backend],) = json.loads((tmp_path / "heap.json").read_text()).values()
    assert 0 <= found["portable"]["loaded"] <= found["portable"]["run"] < 1000
    assert 1000 < found["xnnpack"]["loaded"] < found["xnnpack"]["run"]


def test_calls_in_a_row_and_etdump(tmp_path: Path) -> None:
    pte, _ = written(tmp_path, counter(), backend="portable")
    x, dump = torch.rand(3, 4), tmp_path / "p.etdump"
    save_file({"0": x}, tmp_path / "x.safetensors")
    outputs = [str(tmp_path / f"{number}.safetensors") for number in range(3)]
    inputs = str(tmp_path / "x.safetensors")
    calls = [word for output in outputs[:2] for word in ("forward", inputs, output)]
    RUNTIME.run([f"--program={pte}", f"--etdump={dump}", *calls, "take", inputs, outputs[2]])
    torch.manual_seed(0)
    torch.rand(3, 4)  # as in counter
    module = Counter().eval()
    with torch.no_grad():
        expected = [module(x), module(x), module.take(x)]
    for path, value in zip(outputs, expected, strict=True):
        torch.testing.assert_close(load_file(path)["0"], value)
    torch.testing.assert_close(load_file(outputs[2])["written.0"], x)
    assert dump.read_bytes()[8:12] == b"ED00"  # after two sizes


def test_runs_continue_from_the_state_of_those_before(tmp_path: Path) -> None:
    pte, _ = written(tmp_path, counter(), backend="portable")
    x, output = torch.rand(3, 4), tmp_path / "y.safetensors"
    save_file({"0": x}, tmp_path / "x.safetensors")
    RUNTIME.run([f"--program={pte}", "--runs=3", "forward", str(tmp_path / "x.safetensors"), str(output)])
    torch.manual_seed(0)
    torch.rand(3, 4)  # as in counter
    module = Counter().eval()
    with torch.no_grad():
        expected = [module(x) for _ in range(3)]
    torch.testing.assert_close(load_file(output)["0"], expected[-1])


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="Linux lists the threads of a process")
@pytest.mark.parametrize("flags", [["--single-thread"], []])
def test_threads(tmp_path: Path, flags: list[str]) -> None:
    pte, _ = written(tmp_path, network(), backend="xnnpack")
    command = [str(RUNTIME.runner), f"--program={pte}", "--serve", *flags]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        threads = len(os.listdir(f"/proc/{process.pid}/task"))
    finally:
        process.kill()
        process.communicate()
    assert threads == 1 if flags or os.cpu_count() == 1 else threads > 1


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ({}, "input 0 of method 'forward' is missing"),
        (
            {"0": torch.rand(3, 5)},
            r"input 0 of method 'forward' is F32\[3, 5\], but the method takes F32\[3, 4\]",
        ),
        ({"0": torch.rand(2, 4)}, "input 0 of method 'forward' is refused: Error::NotSupported"),
        ({"0": torch.ones(3, 4).double()}, r"is F64\[3, 4\], but the method takes F32\[3, 4\]"),
    ],
)
def test_wrong_inputs(tmp_path: Path, inputs: dict[str, torch.Tensor], problem: str) -> None:
    pte, _ = written(tmp_path, counter(), backend="portable")
    loaded = RUNTIME.load(str(pte), None, False)
    with pytest.raises(RuntimeError, match=problem):
        loaded.run("forward", list(inputs.values()))
    assert loaded.run("forward", [torch.zeros(3, 4)])  # it goes on


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ([], "--program is missing"),
        (["--program=x.pte", "--wrong"], "unknown option --wrong"),
        (["--program=x.pte", "forward"], "a call is METHOD INPUTS OUTPUTS"),
        (["--program=x.pte", "--runs=-1"], "'-1' is not a number of runs"),
        (["--program=x.pte", "--runs=0"], "--runs=0: expected at least 1"),
        (["--program=x.pte", "--arena=method:1"], "expected NAME:KIND:BYTES"),
        (["--program=x.pte", "--arena=forward:method:-1"], "'-1' is not a number of bytes"),
        (["--program=x.pte"], "x.pte: cannot be mapped"),
        (["--program=damaged.pte"], "damaged.pte: not a program"),
        (
            ["--program=p.pte", "other", "empty.safetensors", "y.safetensors"],
            "no method 'other', but forward, take",
        ),
        (["--program=p.pte", "--method=other", "--zeros"], "no method 'other', but none is loaded"),
        (["--program=p.pte", "--arena=other:method:1", "--zeros"], "no method 'other', but forward, take"),
        (["--program=p.pte", "--arena=take:9:1"], "method 'take' has no planned memory 9, but 2"),
        (["--program=p.pte", "forward", "x.safetensors", "y.safetensors"], "x.safetensors: cannot be opened"),
        (["--program=p.pte", "forward", "p.pte", "y.safetensors"], "p.pte: not a .safetensors file"),
        (["--program=p.pte", "--data=p.pte"], "p.pte: not a file of weights"),
        *(
            (["--program=x.pte", f"--{option}=m.json", flag], "--memory and --heap exclude calls, and all")
            for option in ("memory", "heap")
            for flag in (
                *("--zeros", "--serve", "--arena=take:method:1", "--runs=2", "--single-thread", "--poison"),
                *("--times=t.json", "--etdump=d.etdump"),
            )
        ),
        *(
            (["--program=x.pte", flag], "has no value: expected --")
            for flag in ("--heap", "--memory=", "--times", "--etdump=", "--data")
        ),
        (
            ["--program=p.pte", "forward", "surrogate.safetensors", "y.safetensors"],
            "surrogate.safetensors: not a .safetensors file: malformed JSON",
        ),
    ],
)
def test_mistakes(tmp_path: Path, flags: list[str], problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if any("p.pte" in flag for flag in flags):
        written(tmp_path, counter(), backend="portable")
        save_file({}, tmp_path / "empty.safetensors")
    (tmp_path / "damaged.pte").write_bytes(b"x" * 100)
    text = rb'{"\ud800\u0041": {}}'
    (tmp_path / "surrogate.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
    runner = RUNTIME.runner.resolve()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RuntimeError, match=problem):
        type(RUNTIME)(runner).run(flags)
