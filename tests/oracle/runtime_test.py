# SPDX-License-Identifier: Apache-2.0
"""`verify_program(runtime = ...)` with the runtime of the wheel: the same comparison, in two executors."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from executorch.extension.pybindings import _portable_lib

from delegatec.diagnostics import DelegatecError
from executorch_runtime import RUNTIME
from tests.runtimes.programs import Zeros, counter, network, verified, written, zeros


@pytest.mark.parametrize("backend", ["portable", "xnnpack"])
@pytest.mark.parametrize("external", [False, True])
def test_both_executors_agree_with_eager_mode(tmp_path: Path, backend: str, external: bool) -> None:
    found = verified(tmp_path, network, RUNTIME, external=external, backend=backend)
    assert found.passed, found.table()
    calls = [(each.trial, each.output) for each in found.results if each.executor == "reference"]
    assert len(calls) >= 8
    assert calls == [(each.trial, each.output) for each in found.results if each.executor == RUNTIME.name]
    assert RUNTIME.name in found.table() and "runs in" in found.table().splitlines()[0]


def test_state_and_writes_to_inputs(tmp_path: Path) -> None:
    found = verified(tmp_path, counter, RUNTIME, backend="xnnpack")
    assert found.passed, found.table()
    written = [each for each in found.results if each.path == "(input 0)"]
    assert {each.executor for each in written} == {"reference", RUNTIME.name} and len(written) > 2


def test_zeros_in_memory_that_was_written(tmp_path: Path) -> None:
    pte, _ = written(tmp_path, zeros())
    program, x = _portable_lib._load_program(str(pte)), torch.tensor([2.0])
    module = Zeros()
    expected = [module(x).clone() for _ in range(2)]
    for _ in range(2):  # methods have the same memory
        method = program.load_method("forward")
        for wanted in expected:
            torch.testing.assert_close(method.call([x])[0], wanted)


def test_state_of_methods_with_external_weights(tmp_path: Path) -> None:
    with pytest.raises(DelegatecError, match=r"DC501.*cannot share state between methods"):
        verified(tmp_path, counter, RUNTIME, external=True)


def test_another_model_fails_in_both(tmp_path: Path) -> None:
    other = network()
    other["forward"].state_dict["conv.bias"].data.add_(1)
    found = verified(tmp_path, network, RUNTIME, of=lambda: other)
    failed = {each.executor for each in found.results if not each.passed}
    assert failed == {"reference", RUNTIME.name}
    assert f"in {RUNTIME.name}, output 0" in str(DelegatecError(found.diagnostics))


def test_a_backend_that_the_runtime_lacks(tmp_path: Path) -> None:
    with pytest.raises(DelegatecError, match=r"DC501.*has no backend VulkanBackend, which method 'forward'"):
        verified(tmp_path, network, RUNTIME, backend="vulkan")


def test_programs_are_mapped_from_their_file(tmp_path: Path) -> None:
    verified(tmp_path, network, RUNTIME)
    pte = str(tmp_path / "p.pte")
    loaded = RUNTIME.load(pte, None, False)
    assert pte in Path("/proc/self/maps").read_text()
    assert loaded.run("forward", [torch.rand(1, 3, 8, 8), 0.5])
