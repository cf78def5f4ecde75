# SPDX-License-Identifier: Apache-2.0
"""Forms of weights, compared with torchao's; parts of any size give the same tensors."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torchao.quantization.quant_primitives import MappingType, choose_qparams_affine, quantize_affine

from delegatec.language import forms
from delegatec.language.forms import Form

_FORMS = {
    "int8 rows": Form("int8"),
    "int8 groups": Form("int8", 32),
    "int4 rows": Form("int4"),
    "int4 groups": Form("int4", 16),
    "float16": Form("float16"),
    "float32": Form("float32"),
}


def _weight() -> Tensor:
    weight = torch.randn(12, 64, generator=torch.Generator().manual_seed(0))
    weight[3] = 0
    weight[4, :32] = 1e-30
    return weight


def _stored(form: Form, weight: Tensor) -> dict[str, Tensor]:
    result = form.empty("w", weight)
    for name, start, part in form.chunks("w", lambda rows: weight[rows], *weight.shape):
        result[name][start : start + len(part)] = part
    return result


def _torchao(form: Form, weight: Tensor) -> tuple[Tensor, Tensor]:
    block = (1, form.group_size or 64)
    limits = form.limits
    scale, zeros = choose_qparams_affine(
        weight, MappingType.SYMMETRIC, block, torch.int8, *limits, zero_point_dtype=torch.int8
    )
    values = quantize_affine(weight, block, scale, zeros, torch.int8, *limits)
    return values, scale.reshape(len(weight), -1)


@pytest.mark.parametrize("name", [name for name in _FORMS if name.startswith("int8")])
def test_values_of_int8_are_those_of_torchao(name: str) -> None:
    values, scale = _torchao(_FORMS[name], _weight())
    found = _stored(_FORMS[name], _weight())
    # rows and groups of zeros, and almost, have a scale with which XNNPACK computes
    is_least = scale < 2.0**-59
    assert is_least.any()
    assert torch.equal(found["w_scale"], torch.where(is_least, 1.0, scale))
    is_least = is_least.repeat_interleave(values.shape[1] // scale.shape[1], 1)
    assert torch.equal(found["w_quantized"], torch.where(is_least, 0, values))


@pytest.mark.parametrize("name", [name for name in _FORMS if name.startswith("int4")])
def test_int4_has_less_error_in_each_group_than_torchao(name: str) -> None:
    form, weight = _FORMS[name], _weight()
    groups = (12, -1, form.group_size or 64)

    def error(values: Tensor, scale: Tensor) -> Tensor:
        return (values.view(groups) * scale[:, :, None] - weight.view(groups)).square().sum(2)

    found = _stored(form, weight)
    ours, theirs = error(found["w_quantized"], found["w_scale"]), error(*_torchao(form, weight))
    # scales of groups are rounded
    assert bool((ours <= 1.001 * theirs).all())
    assert float(ours.sum()) < 0.95 * float(theirs.sum())


@pytest.mark.parametrize("name", _FORMS)
def test_parts_of_any_size_are_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    form, weight = _FORMS[name], _weight()
    wanted = _stored(form, weight)
    for chunk in (1, 64, 5 * 64):
        monkeypatch.setattr(forms, "_CHUNK", chunk)
        found = _stored(form, weight)
        assert found.keys() == wanted.keys() == set(form.names("w"))
        assert all(torch.equal(found[each], wanted[each]) for each in wanted)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_values_are_quantized_in_float32(dtype: torch.dtype) -> None:
    weight = _weight().to(dtype)
    found = _stored(Form("int4", 32), weight)
    wanted = _stored(Form("int4", 32), weight.float())
    assert all(torch.equal(found[each], wanted[each]) for each in wanted)
