# SPDX-License-Identifier: Apache-2.0
"""The functions of the page docs/python.md, with what is not on the page."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest
import torch

import delegatec
from delegatec.delegation import BackendRegistry
from delegatec.files import MappedFile


def _model(scale: float = 1.0) -> delegatec.Model:
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    with torch.no_grad():
        layers[2].weight.mul_(scale)  # type: ignore[operator]
    return delegatec.Model(layers, (torch.rand(1, 8),), constant_methods={"width": 8})


def _saved(folder: Path, model: delegatec.Model, backend: str = "portable") -> Path:
    methods = delegatec.export(model)
    delegatec.lower(methods, backend, constant_methods=model.constant_methods).save(folder / "net.pte")
    return folder / "net.pte"


def test_functions_with_names_of_packages() -> None:
    """Such a package can be called, and its modules are still found by their paths."""
    for name in ("quantize", "verify"):
        package: Any = getattr(delegatec, name)
        assert importlib.import_module(f"delegatec.{name}") is package
        assert "samples" in inspect.signature(package).parameters
    assert importlib.import_module("delegatec.verify.interpreter") is delegatec.verify.interpreter  # type: ignore[attr-defined]


def test_the_program_is_the_module(tmp_path: Path) -> None:
    result = delegatec.verify(str(_saved(tmp_path, _model())), _model())
    assert result.passed and "exported program" in result.table() and "module" in result.table()


def test_another_module_is_a_diagnostic(tmp_path: Path) -> None:
    result = delegatec.verify(_saved(tmp_path, _model()), _model(scale=1.01))
    assert not result.passed
    assert {each.code for each in result.diagnostics} == {"DC502"}


def test_a_limit_of_noise_compares_with_the_module_alone(tmp_path: Path) -> None:
    file = _saved(tmp_path, _model(), "xnnpack")
    assert delegatec.verify(file, _model(scale=1.001), minimum_snr_db=20).passed
    result = delegatec.verify(file, _model(scale=2), minimum_snr_db=20)
    assert [each.code for each in result.diagnostics] and "exported program" not in result.table()


def test_a_limit_of_noise_needs_all_methods(tmp_path: Path) -> None:
    more = delegatec.Model(_model().module, (torch.rand(1, 8),), methods={"other": (torch.rand(2, 8),)})
    with pytest.raises(delegatec.DelegatecError, match=r"DC507.*other"):
        delegatec.verify(_saved(tmp_path, _model()), more, minimum_snr_db=20)


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.pte").write_bytes(b"old")
    program = delegatec.lower(delegatec.export(_model()))

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("delegatec.lowering.write_program", full)
    with pytest.raises(OSError, match="No space"):
        program.save(tmp_path / "net.pte")
    assert [path.name for path in tmp_path.iterdir()] == ["net.pte"]
    assert (tmp_path / "net.pte").read_bytes() == b"old"


def test_the_contents_of_a_program(tmp_path: Path) -> None:
    contents = delegatec.inspect(_saved(tmp_path, _model(), "xnnpack"))
    forward, width = contents.methods
    assert [each.backend for each in forward.delegates] == ["XnnpackBackend"]
    assert (forward.kernels, width.name) == ((), "width")
    # XNNPACK's delegates take a known part of the allocators
    assert forward.arenas.method.besides == () and forward.arenas.method.bytes > width.arenas.method.bytes
    unknown = delegatec.inspect(tmp_path / "net.pte", registry=BackendRegistry([]))
    assert unknown.methods[0].arenas.method.besides == ("XnnpackBackend",)
    (tmp_path / "other.pte").write_bytes(b"no program")
    with pytest.raises(delegatec.DelegatecError, match="DC35"):
        delegatec.inspect(tmp_path / "other.pte")


def test_quantized_by_samples_and_without() -> None:
    methods = delegatec.export(_model())
    samples = (torch.rand(1, 8) for _ in range(4))
    static = delegatec.quantize(methods, samples, quantize_io=True)
    (quantization,) = static.inputs["forward"].values()
    assert quantization.dtype is torch.int8
    dynamic = delegatec.quantize(methods, activation="dynamic_int8", weight="int4")
    assert delegatec.lower(dynamic.methods, "xnnpack").reports["forward"].nodes_left == 0


WRONG: dict[str, tuple[str, Any]] = {
    "settings": ("DC130.*activation.*DC130.*weight", {"activation": "int7", "weight": "int7"}),
    "samples that are not needed": ("DC132", {"samples": [torch.rand(1, 9)]}),
    "no samples": ("DC133.*None", {}),
    "one name": ("DC415.*float_modules.*str", {"float_modules": "0"}),
}


@pytest.mark.parametrize(("told", "arguments"), WRONG.values(), ids=WRONG.keys())
def test_wrong_arguments_of_quantize(told: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(delegatec.DelegatecError, match=f"(?s){told}"):
        delegatec.quantize(delegatec.export(_model()), **arguments)


def test_wrong_types() -> None:
    anything: Any = delegatec
    with pytest.raises(delegatec.DelegatecError, match=r"DC415.*model of delegatec.verify"):
        anything.verify("net.pte", torch.nn.ReLU())
    with pytest.raises(delegatec.DelegatecError, match=r"(?s)DC415.*program.*DC415.*atol"):
        anything.verify(1, _model(), atol="1e-3")
    with pytest.raises(delegatec.DelegatecError, match=r"DC415.*program of delegatec.inspect"):
        anything.inspect(MappedFile)
    with pytest.raises(delegatec.DelegatecError, match=r"DC415.*methods of delegatec.quantize"):
        anything.quantize(torch.nn.ReLU())
    with pytest.raises(delegatec.DelegatecError, match=r"DC415.*path of delegatec.Program.save"):
        anything.lower(delegatec.export(_model())).save(3)
