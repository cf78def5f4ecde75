# SPDX-License-Identifier: Apache-2.0
"""`verify_program(runtime = ...)` with the runtime of the wheel: the same comparison, in two executors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
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
from executorch_runtime import RUNTIME


class Network(torch.nn.Module):
    """Layers for XNNPACK, channels-last, and a sum for the kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.conv(x).relu()
        return y, y.double().cumsum(1)


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


def _verify(
    folder: Path,
    methods: Mapping[str, Any],
    again: Mapping[str, Any],
    *,
    external: bool = False,
    **options: Any,
) -> Verification:
    """Lowers some methods, and runs them in both executors."""
    pte, ptd = folder / "p.pte", folder / "p.ptd"
    if external:
        with open(ptd, "wb") as file:
            write_flat_tensors(weights_of(methods), file)
    with open(pte, "wb") as file:
        write_program(lower(methods, external_weights=external, **options).emitted, file)
    data = ptd if external else None
    return verify_program(pte, again, builtin_backends(), runtime=RUNTIME, ptd=data, atol=1e-5)


def _network() -> dict[str, Any]:
    torch.manual_seed(0)
    x = torch.rand(2, 3, 8, 8).to(memory_format=torch.channels_last)
    batch = Dim("batch", min=1, max=5)
    return {"forward": export(Network().eval(), x, dynamic_shapes={"x": {0: batch}})}


def _counter() -> dict[str, Any]:
    torch.manual_seed(0)
    x = torch.rand(3, 4)
    return export_model(Model(Counter().eval(), (x,), methods={"take": Method("take", (x,))}))


@pytest.mark.parametrize("backend", ["portable", "xnnpack"])
@pytest.mark.parametrize("external", [False, True])
def test_both_executors_agree_with_eager_mode(tmp_path: Path, backend: str, external: bool) -> None:
    found = _verify(tmp_path, _network(), _network(), external=external, backend=backend)
    assert found.passed, found.table()
    calls = [(each.trial, each.output) for each in found.results if each.executor == "reference"]
    assert len(calls) >= 8
    assert calls == [(each.trial, each.output) for each in found.results if each.executor == RUNTIME.name]
    assert RUNTIME.name in found.table() and "runs in" in found.table().splitlines()[0]


def test_state_and_writes_to_inputs(tmp_path: Path) -> None:
    found = _verify(tmp_path, _counter(), _counter(), backend="xnnpack")
    assert found.passed, found.table()
    written = [each for each in found.results if each.path == "(input 0)"]
    assert {each.executor for each in written} == {"reference", RUNTIME.name} and len(written) > 2


def test_state_of_methods_with_external_weights(tmp_path: Path) -> None:
    with pytest.raises(DelegatecError, match=r"DC501.*cannot share state between methods"):
        _verify(tmp_path, _counter(), _counter(), external=True)


def test_another_model_fails_in_both(tmp_path: Path) -> None:
    other = _network()
    other["forward"].state_dict["conv.bias"].data.add_(1)
    found = _verify(tmp_path, _network(), other)
    failed = {each.executor for each in found.results if not each.passed}
    assert failed == {"reference", RUNTIME.name}
    assert f"in {RUNTIME.name}, output 0" in str(DelegatecError(found.diagnostics))


def test_a_backend_that_the_runtime_lacks(tmp_path: Path) -> None:
    with pytest.raises(DelegatecError, match=r"DC501.*has no backend VulkanBackend, which method 'forward'"):
        _verify(tmp_path, _network(), _network(), backend="vulkan")


def test_programs_are_mapped_from_their_file(tmp_path: Path) -> None:
    _verify(tmp_path, _network(), _network())
    pte = str(tmp_path / "p.pte")
    loaded = RUNTIME.load(pte, None, False)
    assert pte in Path("/proc/self/maps").read_text()
    assert loaded.run("forward", [torch.rand(1, 3, 8, 8)])
