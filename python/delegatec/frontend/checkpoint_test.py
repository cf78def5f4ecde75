# SPDX-License-Identifier: Apache-2.0
"""Tests of checkpoint."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file, save_model

from delegatec.diagnostics import DelegatecError
from delegatec.frontend.checkpoint import load_checkpoint


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(5, 4)
        self.head = torch.nn.Linear(4, 5, bias=False)
        self.head.weight = self.embedding.weight
        self.norm = torch.nn.BatchNorm1d(4)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def equal(left: torch.nn.Module, right: torch.nn.Module) -> bool:
    a, b = left.state_dict(), right.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


@pytest.mark.parametrize("name", ["model.safetensors", "model.pt", "old.pt", "untied.pt"])
def test_every_format_loads_and_ties_stay(name: str) -> None:
    source, target = Tied(), Tied()
    if name == "model.safetensors":
        save_model(source, name)  # holds tied tensors once
    elif name == "untied.pt":
        torch.save({key: tensor.clone() for key, tensor in source.state_dict().items()}, name)
    else:
        torch.save(source.state_dict(), name, _use_new_zipfile_serialization=name == "model.pt")
    assert load_checkpoint(target, name) is target
    assert equal(source, target)
    assert target.head.weight is target.embedding.weight


def test_all_mismatches_are_reported_and_nothing_is_loaded() -> None:
    tensors = {"0.weight": torch.ones(2, 2), "1.weight": torch.ones(3, 3), "2.weight": torch.ones(3, 3)}
    save_file(tensors, "bad.safetensors")
    module = torch.nn.Sequential(torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3))
    before = [parameter.clone() for parameter in module.parameters()]
    with pytest.raises(DelegatecError) as caught:
        load_checkpoint(module, "bad.safetensors")
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == ["DC117"] * 3
    texts = " ".join(diagnostic.message for diagnostic in caught.value.diagnostics)
    assert all(f'"{name}"' in texts for name in ("0.weight", "1.bias", "2.weight"))
    assert all(map(torch.equal, before, module.parameters()))


@pytest.mark.parametrize("content", [None, [1, 2], {"a": 1}])
def test_other_objects_than_state_dicts(content: object) -> None:
    torch.save(content, "odd.pt")
    with pytest.raises(DelegatecError, match=r"error DC116: cannot read checkpoint odd\.pt"):
        load_checkpoint(torch.nn.Linear(1, 1), "odd.pt")


class Harm:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("harm",)


def test_code_in_a_checkpoint_does_not_run() -> None:
    torch.save({"weight": Harm()}, "harmful.pt")
    with pytest.raises(DelegatecError, match="DC116"):
        load_checkpoint(torch.nn.Linear(1, 1), "harmful.pt")
    assert not os.path.exists("harm")
