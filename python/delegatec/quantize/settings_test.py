# SPDX-License-Identifier: Apache-2.0
"""Settings that exclude each other."""

from __future__ import annotations

from typing import Any, Final

import pytest

from delegatec.diagnostics import DelegatecError
from delegatec.quantize.settings import Settings

DYNAMIC: Final[dict[str, Any]] = {"activation": "dynamic_int8"}
GROUPS: Final[dict[str, Any]] = {"weight": "int4", "group_size": 32}
_UNFIT: Final[dict[str, tuple[dict[str, Any], int]]] = {
    "groups": ({"group_size": 32}, 1),
    "groups of a weight with one scale": ({**DYNAMIC, **GROUPS, "weight_scales": "tensor"}, 1),
    "groups of float16": ({"activation": "float", "weight": "float16", "group_size": 32}, 1),
    "float16": ({**DYNAMIC, "weight": "float16", "weight_scales": "tensor"}, 2),
    "ranges": (
        {**DYNAMIC, "ranges": "symmetric", "observer": "minmax", "inner": "int16", "quantize_io": True},
        4,
    ),
}


@pytest.mark.parametrize("name", _UNFIT)
def test_settings_that_exclude_each_other(name: str) -> None:
    settings, count = _UNFIT[name]
    with pytest.raises(DelegatecError) as error:
        Settings(**settings)
    assert [each.code for each in error.value.diagnostics] == ["DC136"] * count


def test_all_problems_are_reported() -> None:
    with pytest.raises(DelegatecError) as error:
        Settings(activation="int4", weight="int2", group_size=-1)
    assert [each.message for each in error.value.diagnostics] == [
        'activation = "int4" is not a quantization setting',
        'weight = "int2" is not a quantization setting',
        "group_size = -1 is not a group of inputs",
    ]


def test_a_group_has_two_inputs_or_more() -> None:
    with pytest.raises(DelegatecError, match="DC130: group_size = 1 is not a group of inputs"):
        Settings(**DYNAMIC, weight="int4", group_size=1)
    assert Settings(**DYNAMIC, weight="int4", group_size=2).group_size == 2
