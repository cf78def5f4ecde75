# SPDX-License-Identifier: Apache-2.0
"""Nested inputs and outputs: from a model, through the file alone, to the runtime's results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.lowering import lower
from delegatec.program import write_program
from delegatec.program.reader import read_program
from delegatec.report.build import build_manifest
from tests.oracle.oracle import OracleProgram


@dataclass
class Result:
    """The result of a library's model."""

    logits: torch.Tensor
    states: tuple[torch.Tensor, ...]


torch.export.register_dataclass(Result, serialized_type_name="tests.Result")


class Net(torch.nn.Module):
    """Takes and returns nested containers, scalars and None among them."""

    def forward(
        self, batch: dict[str, Any], scale: float, *, mask: torch.Tensor, rest: Any = None
    ) -> dict[str, Any]:
        first, (second, third) = batch["image"], batch["pair"]
        y = (first + second) * scale
        return {
            "out": Result(y, (y + third, mask * 2)),
            "list": [y.sum(), (rest[0] - 1,)],
            "number": 3,
            "nothing": None,
        }


A, B, C = torch.rand(2, 3), torch.rand(2, 3), torch.rand(3)
ARGS: tuple[Any, ...] = ({"image": A, "pair": (B, C)}, 0.5)
KWARGS = {"mask": torch.tensor([1.0, 0.0]), "rest": [torch.rand(1)]}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp("nested")
    archive.save(export(Model(Net(), ARGS, KWARGS)), str(folder / "net.pt2"))
    lowered = lower(archive.load(str(folder / "net.pt2")).methods)
    with open(folder / "net.pte", "wb") as file:
        write_program(lowered.emitted, file)
    return lowered, folder / "net.pte"


def test_the_file_has_the_trees_of_inputs_and_outputs(built: tuple[Any, Path]) -> None:
    method = read_program(built[1]).method("forward")
    leaves, spec = pytree.tree_flatten((ARGS, KWARGS))
    assert pytree.treespec_loads(method.in_spec) == spec
    outputs = OracleProgram(built[1]).run(leaves)
    result = pytree.tree_unflatten(outputs, pytree.treespec_loads(method.out_spec))
    eager = Net()(*ARGS, **KWARGS)
    # the class of a library is a dict of its fields: a program is read where the library is not
    expected = {**eager, "out": {"logits": eager["out"].logits, "states": eager["out"].states}}
    assert pytree.tree_structure(result) == pytree.tree_structure(expected)
    assert result["nothing"] is None and result["number"] == 3
    pairs = zip(pytree.tree_leaves(result), pytree.tree_leaves(expected), strict=True)
    for actual, wanted in ((a, e) for a, e in pairs if e is not None):
        torch.testing.assert_close(torch.as_tensor(actual), torch.as_tensor(wanted))


def test_the_manifest_has_names_and_paths(built: tuple[Any, Path]) -> None:
    lowered, path = built
    manifest = build_manifest(lowered, path)
    (method,) = manifest.methods
    assert [item.path for item in method.inputs] == [
        "args[0]['image']",
        "args[0]['pair'][0]",
        "args[0]['pair'][1]",
        "args[1]",
        "kwargs['mask']",
        "kwargs['rest'][0]",
    ]
    assert [item.path for item in method.outputs] == [
        "result['out']['logits']",
        "result['out']['states'][0]",
        "result['out']['states'][1]",
        "result['list'][0]",
        "result['list'][1][0]",
        "result['number']",
        "result['nothing']",
    ]
    assert [item.dtype for item in method.inputs] == ["float32"] * 3 + ["float"] + ["float32"] * 2
    assert [item.name for item in method.inputs][4] == "mask"
