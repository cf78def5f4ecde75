# SPDX-License-Identifier: Apache-2.0
"""Layers that cannot be quantized as requested, all in one run."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import nn

from delegatec.diagnostics import DelegatecError
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized


def _problems(module: nn.Module, shape: tuple[int, ...], **settings: Any) -> list[tuple[str, str, str]]:
    with pytest.raises(DelegatecError) as error:
        quantized(module, (torch.ones(shape),), Settings(**settings))
    return [(each.code, each.message, each.help) for each in error.value.diagnostics]


def _layers() -> nn.Module:
    torch.manual_seed(0)
    layers = {"wide": nn.Linear(64, 96), "middle": nn.Linear(96, 48), "last": nn.Linear(48, 64)}
    return nn.Sequential(OrderedDict(layers))


def test_all_layers_that_groups_do_not_divide_are_named() -> None:
    groups: dict[str, Any] = {"activation": "dynamic_int8", "weight": "int4", "group_size": 64}
    found = _problems(_layers(), (1, 64), **groups, float_modules=("tail",))
    assert [each[:2] for each in found] == [
        ("DC130", 'float_modules: the model has no module "tail"'),
        ("DC134", 'group_size = 64 does not divide the 96 inputs of "middle.weight"'),
        ("DC134", 'group_size = 64 does not divide the 48 inputs of "last.weight"'),
    ]
    assert found[1][2].endswith('float_modules = ["middle"]')
    kept = quantized(_layers(), (torch.ones(1, 64),), Settings(**groups, float_modules=("middle", "last")))
    assert {"wide.weight_levels", "middle.weight", "last.weight"} <= set(kept.methods["forward"].state_dict)


@pytest.mark.parametrize(
    ("module", "shape", "activation"),
    [(nn.Conv2d(3, 4, 3), (1, 3, 8, 8), "float"), (nn.Conv1d(3, 3, 3, groups=3), (1, 3, 8), "dynamic_int8")],
)
def test_a_model_without_layers_is_refused(
    module: nn.Module, shape: tuple[int, ...], activation: str
) -> None:
    ((code, message, help),) = _problems(module, shape, activation=activation)
    assert (code, message) == ("DC134", "method forward has no layer to quantize")
    assert ("dynamic_int8" in help) == (activation == "float")


def test_weights_beyond_float16_are_refused() -> None:
    module = _layers()
    with torch.no_grad():
        module.get_parameter("middle.weight")[0, 0] = -7e4
    ((code, message, _),) = _problems(module, (1, 64), activation="float", weight="float16")
    assert (code, message) == ("DC406", 'the weight "middle.weight" has values beyond float16')
