# SPDX-License-Identifier: Apache-2.0
"""Named data of delegates: stored once for all, and one content for each name."""

from __future__ import annotations

import pytest
import torch

from delegatec.delegation import NamedData
from delegatec.delegation.protocol.parts import join, tensor_bytes
from delegatec.diagnostics import DelegatecError
from delegatec.program.emitted import Delegate, EmittedMethod
from delegatec.program.external import ExternalWeights
from delegatec.program.named_data import merge_named_data
from delegatec.program.planning.memory_plan import MemoryPlan


def _method(name: str, *named: dict[str, NamedData]) -> EmittedMethod:
    delegates = [Delegate("Some", (b"",), (), f"d{i}", {}, items) for i, items in enumerate(named)]
    return EmittedMethod(name, [], [], [], [], [], [], delegates, MemoryPlan())


def test_equal_data_is_one_with_the_largest_alignment() -> None:
    first = _method("first", {"w": NamedData(b"abc", 16)}, {"v": NamedData(b"", 1)})
    second = _method("second", {"w": NamedData(memoryview(b"abc"), 64)})
    merged = merge_named_data([first, second], ExternalWeights({"other": torch.ones(1)}))
    assert {key: (join([item.data]), item.alignment) for key, item in merged.items()} == {
        "w": (b"abc", 64),
        "v": (b"", 1),
    }


def test_names_that_mean_two_things_are_errors() -> None:
    first = _method("first", {"w": NamedData(b"abc"), "v": NamedData(b"1"), "linear.weight": NamedData(b"2")})
    second = _method("second", {"w": NamedData(b"abd"), "v": NamedData(b"11")})
    with pytest.raises(DelegatecError) as caught:
        merge_named_data([first, second], ExternalWeights({"linear.weight": torch.ones(1)}))
    assert [(d.code, d.message.split("'")[1]) for d in caught.value.diagnostics] == [
        ("DC361", "linear.weight"),
        ("DC361", "w"),
        ("DC361", "v"),
    ]


def test_a_weight_of_the_data_file_is_not_stored_again() -> None:
    weight = torch.arange(3.0)
    method = _method(
        "first", {"linear.weight": NamedData(tensor_bytes(weight.clone())), "v": NamedData(b"1")}
    )
    external = ExternalWeights({"linear.weight": weight, "linear.bias": weight})
    assert list(merge_named_data([method], external)) == ["v"]
    assert list(external.used) == ["linear.weight"]


def test_invalid_data_is_rejected() -> None:
    with pytest.raises(TypeError, match="str"):
        NamedData("abc")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="12"):
        NamedData(b"", 12)
