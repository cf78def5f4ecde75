# SPDX-License-Identifier: Apache-2.0
"""Arguments of wrong types are diagnostics, not tracebacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import delegatec
from delegatec.delegation import PartitionRules
from delegatec.delegation.testing import SupportsAllBut
from delegatec.diagnostics import DelegatecError
from delegatec.edge.testing import export

X = torch.rand(3)
anything: Any = delegatec


def _exported() -> Any:
    return export(torch.nn.ReLU(), X)


def _edge() -> Any:
    return delegatec.to_edge(_exported())


WRONG: dict[str, tuple[str, Callable[[], Any]]] = {
    "a module": ("DC415.*ReLU", lambda: anything.to_edge(torch.nn.ReLU())),
    "all methods": ("DC415.*one of its methods", lambda: anything.to_edge({"forward": _exported()})),
    "one program": ("DC415.*ExportedProgram.*forward", lambda: anything.lower(_exported())),
    "modules": ("DC415.*a method", lambda: anything.lower({"forward": torch.nn.ReLU()})),
    "a backend": ("DC415.*backend", lambda: anything.lower({"forward": _exported()}, object())),
    "rules": ("DC415.*rules", lambda: anything.lower({"forward": _exported()}, rules={"minimum_nodes": 1})),
    "options": ("DC415.*program_opt", lambda: anything.lower({"forward": _exported()}, program_options={})),
    "a list of options": (
        "DC415.*options.*DC415.*constant_methods",
        lambda: anything.lower({"forward": _exported()}, options=["precision"], constant_methods=[1]),
    ),
    "no methods": ("DC415.*is empty", lambda: anything.lower({})),
    "a method without a name": ("DC415.*name", lambda: anything.lower({"": _exported()})),
    "a module to export": ("DC415.*model.*ReLU.*Model", lambda: anything.export(torch.nn.ReLU())),
    "no edge program": ("DC415.*second", lambda: anything.to_backend("MPSBackend", _exported())),
    "specs": ("DC415.*compile_specs", lambda: anything.to_backend("MPSBackend", _edge(), {"a": "b"})),
    "no program": ("DC415.*first", lambda: anything.to_backend(_exported(), SupportsAllBut())),
    "no method": ("DC415.*a method", lambda: anything.to_backend({"forward": X}, SupportsAllBut())),
    "an id": ("DC415.*partitioner.*str", lambda: anything.to_backend(_edge(), "MPSBackend")),
    "a map": ("DC415.*dict", lambda: anything.to_backend(_edge(), {"forward": SupportsAllBut()})),
    "nothing": ("DC415.*None", lambda: anything.to_backend({"forward": _edge()}, {"forward": None})),
    "one name": ("DC412.*block_operators", lambda: PartitionRules(block_operators="aten.add")),  # type: ignore[arg-type]
    "two rules": (
        "DC412.*minimum_nodes.*DC412.*maximum",
        lambda: PartitionRules(minimum_nodes="2", maximum_delegates=1.5),  # type: ignore[arg-type]
    ),
}


def test_public_names() -> None:
    names: dict[str, Any] = {}
    exec("from delegatec import *", names)
    found = {name for name in names if not name.startswith("__")}
    assert found == set(delegatec.__all__) == set(anything._MODULES)
    assert all(names[name].__doc__ for name in found)


def test_errors_are_caught_by_their_public_name() -> None:
    try:
        delegatec.lower({})
    except delegatec.DelegatecError as error:
        (problem,) = error.diagnostics
    assert isinstance(problem, delegatec.Diagnostic) and problem.code == "DC415"
    assert delegatec.DelegatecError is DelegatecError and delegatec.PartitionRules is PartitionRules


@pytest.mark.parametrize(("told", "call"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_type_is_a_diagnostic(told: str, call: Callable[[], Any]) -> None:
    with pytest.raises(DelegatecError, match=f"(?s){told}"):
        call()


def test_rules_accept_lists() -> None:
    assert PartitionRules(block_operators=["aten.add"]).block_operators == ("aten.add",)  # type: ignore[arg-type]
