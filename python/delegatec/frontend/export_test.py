# SPDX-License-Identifier: Apache-2.0
"""Export of models; tests/errors has the errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram

from delegatec.diagnostics import DelegatecError
from delegatec.frontend import archive
from delegatec.frontend.export import ExportRequest, export, export_model
from delegatec.frontend.load import choose_source
from delegatec.frontend.model import Method, Model
from delegatec.frontend.signature import signature_json

LAYERS = """
import torch

def activate(x):
    y = torch.relu(x)
    return torch.tanh(y)
"""
NET = """
import os
import random
import numpy
import torch
import delegatec
from common.layers import activate

IMPORTED = torch.rand(1).item()

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        drawn = [random.random(), numpy.random.rand(), torch.rand(1).item(), IMPORTED]
        self.weight = torch.nn.Parameter(torch.tensor(drawn))
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x):
        return self._scaled(self.dropout(x))

    def _scaled(self, x):
        return activate(x) * self.weight

def build():
    return delegatec.Model(Net(), (torch.ones(2, 4),))
"""


def nodes(program: ExportedProgram, name: str) -> list[torch.fx.Node]:
    return [node for node in program.graph.nodes if name in str(node.target)]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, text in (("models/net.py", NET), ("common/layers.py", LAYERS)):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    yield tmp_path
    for module in ("common.layers", "common", "models.net"):
        sys.modules.pop(module, None)


def exported(seed: int) -> ExportedProgram:
    request = ExportRequest(
        "net:build", ("models/net.py",), (".",), seed=seed, program="net.pt2", signature="net.json"
    )
    export_model(request)
    return archive.load("net.pt2").methods["forward"]


def test_user_code_is_seeded(workspace: Path) -> None:
    first, again, other = exported(1), exported(1), exported(2)
    weights = [program.state_dict["weight"] for program in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.isclose(weights[0], weights[2]).any()


def test_the_import_of_torchao_prints_nothing(workspace: Path, caplog: pytest.LogCaptureFixture) -> None:
    constants = "import enum\nKind = enum.StrEnum('Kind', 'A')\ntorch.utils._pytree.register_constant(Kind)\n"
    (workspace / "models/net.py").write_text(NET + constants)
    exported(0)
    assert not [each for each in caplog.records if each.levelname == "WARNING"]
    (workspace / "models/net.py").write_text(NET + "import logging\nlogging.warning('of the model')\n")
    sys.modules.pop("models.net")
    exported(0)
    assert "of the model" in caplog.text


def test_module_is_exported_in_eval_mode_without_gradients(workspace: Path) -> None:
    program = exported(0)
    (dropout,) = nodes(program, "dropout")
    assert dropout.args[2] is False
    assert not any(tensor.requires_grad for tensor in program.state_dict.values())


def test_every_node_has_all_frames_of_the_user_and_no_other(workspace: Path) -> None:
    program = exported(0)
    (tanh,) = nodes(program, "tanh")
    assert tanh.meta["stack_trace"].splitlines()[::2] == [
        '  File "models/net.py", line 19, in forward',
        '  File "models/net.py", line 22, in _scaled',
        '  File "common/layers.py", line 6, in activate',
    ]
    assert tanh.meta["stack_trace"].splitlines()[-1] == "    return torch.tanh(y)"


def test_signature_file(workspace: Path) -> None:
    exported(0)
    signature = json.loads(Path("net.json").read_text())["methods"]["forward"]
    assert signature["inputs"] == [{"name": "x", "dtype": "float32", "shape": [2, 4]}]
    assert [(p["name"], p["shape"]) for p in signature["parameters"]] == [("weight", [4])]


class Two(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> dict[str, torch.Tensor]:
        self.steps += 1
        return {"y": self.encode(x) * scale, "steps": self.steps.clone()}

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


@pytest.mark.parametrize("strict", [False, True])
def test_methods_and_dynamic_shapes(strict: bool) -> None:
    batch = torch.export.Dim("batch", min=1, max=8)
    module = Two()
    model = Model(
        module,
        (torch.ones(2, 4),),
        {"scale": 3.0},
        dynamic_shapes={"x": {0: batch}, "scale": None},
        methods={"encode": Method("encode", (torch.ones(1, 4),))},
        strict=strict,
    )
    methods = export(model)
    assert list(methods) == ["forward", "encode"]
    x = torch.randn(5, 4)
    result: Any = methods["forward"].module()(x, scale=3.0)
    assert torch.allclose(result["y"], module.linear(x) * 3)
    assert torch.equal(methods["encode"].module()(x[:1]), module.linear(x[:1]))
    assert "forward" not in vars(module)
    signature = json.loads(signature_json(methods))["methods"]
    (size, width) = signature["forward"]["inputs"][0]["shape"]
    assert signature["forward"]["symbols"] == {size: {"min": 1, "max": 8}}
    assert width == 4
    assert signature["forward"]["inputs"][1] == {"name": "scale", "value": 3.0}
    assert signature["forward"]["buffers"][0]["persistent"] is True
    assert [output["shape"] for output in signature["forward"]["outputs"]] == [[size, 4], [1]]


def test_method_alone() -> None:
    methods = export(Model(Two(), methods={"encode": Method("encode", (torch.ones(1, 4),))}))
    assert list(methods) == ["encode"]


class CallsForward(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)

    def twice(self, x: torch.Tensor) -> torch.Tensor:
        return self.forward(self.forward(x))

    def called(self, x: torch.Tensor) -> torch.Tensor:
        return self(self.twice(x))


@pytest.mark.parametrize("own_forward", [False, True])
def test_methods_call_forward(own_forward: bool) -> None:
    """With its hooks if they call the module; an instance's own `forward` stays what it is."""
    module = CallsForward().eval()
    module.register_forward_hook(lambda module, inputs, result: result * 2)
    if own_forward:
        module.forward = lambda x: module.linear(x) + 1  # type: ignore[method-assign]
    before = dict(vars(module))
    x = torch.randn(2, 4)
    methods = export(Model(module, (x,), methods={name: Method(name, (x,)) for name in ("twice", "called")}))
    assert vars(module) == before
    for name in ("twice", "called"):
        assert torch.allclose(methods[name].module()(x), getattr(module, name)(x))


def test_a_tuple_is_a_method_that_calls_forward() -> None:
    module = Two()
    inputs = {size: (torch.ones(size, 4), 2.0) for size in (1, 8)}
    methods = export(Model(module, methods={f"forward_{size}": inputs[size] for size in inputs}))
    assert list(methods) == ["forward_1", "forward_8"]
    for size, args in inputs.items():
        assert methods[f"forward_{size}"].module()(*args)["y"].shape == (size, 4)
    weights = {methods[name].state_dict["linear.weight"].data_ptr() for name in methods}
    assert len(weights) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("net", "models/net.py"),
        ("models.net", "models/net.py"),
        ("other.net", None),
        ("util", None),
        ("et", None),
    ],
)
def test_entry_names_its_source(module: str, source: str | None) -> None:
    sources = ("models/net.py", "models/util.py", "models/deep/util.py")
    if source is not None:
        assert choose_source(sources, module) == source
        return
    with pytest.raises(DelegatecError, match="DC101"):
        choose_source(sources, module)


def test_normalization_without_statistics_is_not_training() -> None:
    """How weights are standardized, in BiT and similar models."""

    class Standardized(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.batch_norm(x, None, None, training=True)

    assert list(export(Model(Standardized(), (torch.randn(2, 3, 4),)))) == ["forward"]
