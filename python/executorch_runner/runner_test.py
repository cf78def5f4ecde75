# SPDX-License-Identifier: Apache-2.0
"""Programs in the C++ runner, compared with eager mode; its arenas, and its messages for mistakes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.export import Dim

from delegatec.backends import builtin_backends
from delegatec.diagnostics import DelegatecError
from delegatec.edge.testing import export
from delegatec.frontend.export import export as export_model
from delegatec.frontend.model import Method, Model
from delegatec.lowering import lower
from delegatec.program import weights_of, write_flat_tensors, write_program
from delegatec.verify import Verification
from delegatec.verify.verification import verify_program
from executorch_runner import RUNTIME
from executorch_runner.testing import insufficient_arenas, measured_arenas


class Network(torch.nn.Module):
    """Layers for XNNPACK, channels-last, and calls of kernels, also of one that needs temporary memory."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x: torch.Tensor, scale: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]:
        y = self.conv(x).relu()
        return y * scale, y.double().cumsum(1), y.sort(1)[1].to(torch.bfloat16), x.shape[0]


class Counter(torch.nn.Module):
    """State that two methods share, and an input that one writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.get_buffer("total").add_(self.layer(x).sum(0))
        return self.get_buffer("total") * 2

    def take(self, cache: torch.Tensor) -> torch.Tensor:
        cache.add_(self.get_buffer("total"))
        return cache * 2


def _network() -> dict[str, Any]:
    torch.manual_seed(0)
    x = torch.rand(2, 3, 8, 8).to(memory_format=torch.channels_last)
    batch = Dim("batch", min=1, max=5)
    return {"forward": export(Network().eval(), x, 0.5, dynamic_shapes={"x": {0: batch}, "scale": None})}


def _counter() -> dict[str, Any]:
    torch.manual_seed(0)
    x = torch.rand(3, 4)
    return export_model(Model(Counter().eval(), (x,), methods={"take": Method("take", (x,))}))


def _write(
    folder: Path, methods: Mapping[str, Any], *, external: bool = False, **options: Any
) -> tuple[Path, Path | None]:
    pte, ptd = folder / "p.pte", folder / "p.ptd"
    if external:
        with open(ptd, "wb") as file:
            write_flat_tensors(weights_of(methods), file)
    with open(pte, "wb") as file:
        write_program(lower(methods, external_weights=external, **options).emitted, file)
    return pte, ptd if external else None


def _verify(folder: Path, make: Any, **options: Any) -> Verification:
    pte, ptd = _write(folder, make(), **options)
    return verify_program(pte, make(), builtin_backends(), runtime=RUNTIME, ptd=ptd, atol=1e-5)


@pytest.mark.parametrize("backend", ["portable", "xnnpack"])
@pytest.mark.parametrize("external", [False, True])
def test_tensors_and_scalars(tmp_path: Path, backend: str, external: bool) -> None:
    found = _verify(tmp_path, _network, external=external, backend=backend)
    assert found.passed, found.table()
    calls = [(each.trial, each.output) for each in found.results if each.executor == "reference"]
    assert len(calls) >= 8
    assert calls == [(each.trial, each.output) for each in found.results if each.executor == RUNTIME.name]


@pytest.mark.parametrize("external", [False, True])
def test_state_and_writes_to_inputs(tmp_path: Path, external: bool) -> None:
    found = _verify(tmp_path, _counter, external=external, backend="xnnpack")
    assert found.passed, found.table()
    written = [each for each in found.results if each.path == "(input 0)"]
    assert {each.executor for each in written} == {"reference", RUNTIME.name} and len(written) > 2


def test_backends(tmp_path: Path) -> None:
    assert RUNTIME.backends == ["XnnpackBackend"]
    with pytest.raises(DelegatecError, match=r"DC501.*executorch runner has no backend VulkanBackend"):
        _verify(tmp_path, _network, backend="vulkan")


@pytest.mark.parametrize("backend", ["portable", "xnnpack"])
@pytest.mark.parametrize("make", [_network, _counter])
def test_arenas_are_exact(tmp_path: Path, backend: str, make: Any) -> None:
    pte, _ = _write(tmp_path, make(), backend=backend)
    for method, sizes in measured_arenas(pte, tmp_path).items():
        assert sizes["method"] > 0 and sizes["temporary"] > 0 and sizes["planned"][0] > 0
        problems = insufficient_arenas(pte, method, sizes)
        assert {"method", "temporary", "1"} <= problems.keys()
        assert [kind for kind, problem in problems.items() if "MemoryAllocationFailed" not in problem] == []


def test_calls_in_a_row_and_etdump(tmp_path: Path) -> None:
    pte, _ = _write(tmp_path, _counter(), backend="portable")
    x, dump = torch.rand(3, 4), tmp_path / "p.etdump"
    save_file({"0": x}, tmp_path / "x.safetensors")
    outputs = [str(tmp_path / f"{number}.safetensors") for number in range(3)]
    inputs = str(tmp_path / "x.safetensors")
    calls = [word for output in outputs[:2] for word in ("forward", inputs, output)]
    RUNTIME.run([f"--program={pte}", f"--etdump={dump}", *calls, "take", inputs, outputs[2]])
    torch.manual_seed(0)
    torch.rand(3, 4)  # as in _counter
    module = Counter().eval()
    with torch.no_grad():
        expected = [module(x), module(x), module.take(x)]
    for path, value in zip(outputs, expected, strict=True):
        torch.testing.assert_close(load_file(path)["0"], value)
    torch.testing.assert_close(load_file(outputs[2])["written.0"], x)
    assert dump.read_bytes()[8:12] == b"ED00"  # after two sizes


def test_runs_continue_from_the_state_of_those_before(tmp_path: Path) -> None:
    pte, _ = _write(tmp_path, _counter(), backend="portable")
    x, output = torch.rand(3, 4), tmp_path / "y.safetensors"
    save_file({"0": x}, tmp_path / "x.safetensors")
    RUNTIME.run([f"--program={pte}", "--runs=3", "forward", str(tmp_path / "x.safetensors"), str(output)])
    torch.manual_seed(0)
    torch.rand(3, 4)  # as in _counter
    module = Counter().eval()
    with torch.no_grad():
        expected = [module(x) for _ in range(3)]
    torch.testing.assert_close(load_file(output)["0"], expected[-1])


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="Linux lists the threads of a process")
@pytest.mark.parametrize("flags", [["--single-thread"], []])
def test_threads(tmp_path: Path, flags: list[str]) -> None:
    pte, _ = _write(tmp_path, _network(), backend="xnnpack")
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
    pte, _ = _write(tmp_path, _counter(), backend="portable")
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
    ],
)
def test_mistakes(tmp_path: Path, flags: list[str], problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if any("p.pte" in flag for flag in flags):
        _write(tmp_path, _counter(), backend="portable")
        save_file({}, tmp_path / "empty.safetensors")
    (tmp_path / "damaged.pte").write_bytes(b"x" * 100)
    runner = RUNTIME.runner.resolve()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RuntimeError, match=problem):
        type(RUNTIME)(runner).run(flags)
