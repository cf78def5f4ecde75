# SPDX-License-Identifier: Apache-2.0
"""Constant methods: from a model through its archive to the results in the stock runtime."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_unflatten, treespec_loads

from delegatec.backends import builtin_backends
from delegatec.diagnostics import DelegatecError
from delegatec.edge.constant_methods import flatten
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.report.build import build_manifest
from delegatec.report.inspection import inspect_program
from delegatec.verify.verification import verify_program
from tests.oracle.oracle import OracleProgram

TABLE = torch.arange(6, dtype=torch.int64).reshape(2, 3)
VALUES: dict[str, Any] = {
    "get_max_seq_len": 128,
    "get_large": -(2**63),
    "get_eos_ids": [7, 2**40],
    "get_scale": 0.1,
    "get_nan": math.nan,
    "get_minus_zero": -0.0,
    "use_cache": True,
    "get_name": "größe",
    "get_table": TABLE,
    "get_turned": TABLE.T.to(torch.float16),
    "get_scalar": torch.tensor(True),
    "get_all": (1, [2.5, "x"], (TABLE, torch.rand(3)), (False,)),
}


class _Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.linear(x)
        return result


X = torch.rand(3, 4)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("built")
    pt2, pte = folder / "net.pt2", folder / "net.pte"
    model = Model(_Net(), (X,), constant_methods=VALUES)
    archive.save(export(model), str(pt2), model.constant_methods)
    loaded = archive.load(str(pt2))
    with open(pte, "wb") as file:
        write_program(lower(loaded.methods, constant_methods=loaded.constant_methods).emitted, file)
    return pt2, pte


def _same(actual: Any, expected: Any) -> None:
    assert type(actual) is type(expected)
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(actual, expected, atol=0, rtol=0)
    elif isinstance(expected, (tuple, list)):
        for a, e in zip(actual, expected, strict=True):
            _same(a, e)
    else:
        assert repr(actual) == repr(expected)


@pytest.mark.parametrize("name", VALUES)
def test_values_survive_the_archive(built: tuple[Path, Path], name: str) -> None:
    _same(archive.load(str(built[0])).constant_methods[name], VALUES[name])


@pytest.mark.parametrize("name", VALUES)
def test_the_runtime_returns_them(built: tuple[Path, Path], name: str) -> None:
    runtime = OracleProgram(built[1])
    leaves, spec = flatten(VALUES[name])
    for _ in range(2):
        actual = runtime.run([], name)
        _same(actual, leaves)
    meta = next(m for m in lower({}, constant_methods={name: VALUES[name]}).emitted.methods)
    _same(tree_unflatten(actual, treespec_loads(meta.out_spec)), tree_unflatten(leaves, spec))
    assert set(runtime.methods) == {"forward", *VALUES}


def test_torch_reads_the_archive(built: tuple[Path, Path]) -> None:
    program = torch.export.load(built[0])
    assert program.module()(X).shape == (3, 2)


def test_verification_compares_them(built: tuple[Path, Path]) -> None:
    pt2, pte = built
    loaded = archive.load(str(pt2))
    verify = {"backends": builtin_backends(), "atol": 1e-5, "rtol": 1e-5, "ptd": None}
    assert verify_program(pte, loaded.methods, constant_methods=VALUES, **verify).passed  # type: ignore[arg-type]
    for name, other in {"get_scale": 0.2, "get_table": TABLE + 1, "use_cache": 1, "get_name": "x"}.items():
        result = verify_program(pte, {}, constant_methods={name: other}, **verify)  # type: ignore[arg-type]
        assert [diagnostic.code for diagnostic in result.diagnostics] == ["DC502"], name
    with pytest.raises(DelegatecError, match="get_nothing"):
        verify_program(pte, {}, constant_methods={"get_nothing": 1}, **verify)  # type: ignore[arg-type]


def test_reports_show_them(built: tuple[Path, Path]) -> None:
    methods = archive.load(str(built[0])).methods
    lowered = lower(methods, constant_methods=VALUES)
    manifest = build_manifest(lowered, built[1])
    assert [method.name for method in manifest.methods] == ["forward"]
    outputs = {method.name: method.outputs for method in manifest.constant_methods}
    assert list(outputs) == list(VALUES)
    assert [(o.name, o.dtype) for o in outputs["get_max_seq_len"]] == [("128", "int")]
    assert [(o.name, o.shape) for o in outputs["get_table"]] == [("get_table_0", (2, 3))]
    contents = {method.name: method for method in inspect_program(built[1]).methods}
    assert contents["get_all"].instructions == 0 and len(contents["get_all"].outputs) == 6


def test_their_tensors_are_stored_once_with_the_weights() -> None:
    net = _Net().eval()
    weight = net.linear.weight.detach()
    methods = {"forward": torch.export.export(net, (X,))}
    constants = {"get_weight": weight, "get_copy": (weight.clone(), weight)}
    emitted = lower(methods, constant_methods=constants).emitted
    assert [names for names in emitted.constant_names if "get_weight" in names] == [
        ("get_copy", "get_weight", "linear.weight")
    ]
    file = io.BytesIO()
    write_program(emitted, file)
    _same(OracleProgram(file.getvalue()).run([], "get_copy"), [weight, weight])


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"forward": 1}, "'forward'"),
        ({"two words": 1}, "'two words'"),
        ({"get": None}, "NoneType"),
        ({"get": 2**63}, str(2**63)),
        ({"get": []}, "nothing"),
        ({"get": {"a": 1}}, "dict"),
        ({"get": (1, [torch.zeros(2, dtype=torch.complex64)])}, "complex64"),
        ({"get": torch.zeros(2, device="meta")}, "meta"),
    ],
)
def test_unsupported_values(methods: dict[str, Any], message: str) -> None:
    with pytest.raises(DelegatecError) as caught:
        Model(_Net(), (X,), constant_methods=methods)
    (problem,) = caught.value.diagnostics
    assert problem.code == "DC122" and message in problem.message and problem.location is not None
    with pytest.raises(DelegatecError, match="DC122"):
        lower({"forward": torch.export.export(_Net(), (X,))}, constant_methods=methods)
