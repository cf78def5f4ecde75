# SPDX-License-Identifier: Apache-2.0
"""Settings of weights: defaults, unknown values, values that exclude each other."""

from __future__ import annotations

from typing import Any

import pytest

from delegatec.diagnostics import DelegatecError
from delegatec.language.settings import WeightSettings


@pytest.mark.parametrize(
    ("given", "embedding", "activation"),
    [
        ({}, "float32", "float"),
        ({"weights": "float16"}, "float16", "float"),
        ({"weights": "int8"}, "int8", "dynamic_int8"),
        ({"weights": "int4", "group_size": 32}, "int8", "dynamic_int8"),
        ({"weights": "int4", "activation": "float", "embedding": "int4"}, "int4", "float"),
        ({"vision_weights": "int8"}, "float32", "dynamic_int8"),
        ({"vision_weights": "int8", "activation": "dynamic_int8"}, "float32", "dynamic_int8"),
        ({"weights": "int8", "vision_weights": "float16"}, "int8", "dynamic_int8"),
    ],
)
def test_defaults(given: dict[str, Any], embedding: str, activation: str) -> None:
    settings = WeightSettings(**given)
    assert (settings.embedding, settings.activation) == (embedding, activation)


@pytest.mark.parametrize(
    ("given", "codes"),
    [
        ({"weights": "int5"}, ["DC130"]),
        ({"weights": "int8", "embedding": "float", "activation": "int8"}, ["DC130", "DC130"]),
        ({"weights": "int4", "group_size": 1}, ["DC130"]),
        ({"weights": "int4", "group_size": -32}, ["DC130"]),
        ({"group_size": 32}, ["DC136"]),
        ({"vision_weights": "int8", "group_size": 32}, ["DC136"]),
        ({"vision_weights": "int5"}, ["DC130"]),
        ({"weights": "float16", "group_size": 32, "activation": "dynamic_int8"}, ["DC136", "DC136"]),
    ],
)
def test_all_problems_are_reported(given: dict[str, Any], codes: list[str]) -> None:
    with pytest.raises(DelegatecError) as caught:
        WeightSettings(**given)
    assert [each.code for each in caught.value.diagnostics] == codes
