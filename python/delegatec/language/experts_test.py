# SPDX-License-Identifier: Apache-2.0
"""Weights of experts, and those of layers with columns first: quantized by rows of outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import torch
from safetensors import safe_open
from torch import Tensor, nn

from delegatec import language_model
from delegatec.diagnostics import DelegatecError
from delegatec.language.folder import read_folder
from delegatec.language.forms import Form, quantized_rows
from delegatec.language.loading import store_checkpoint
from delegatec.language.network import forms_of, network_of
from delegatec.language.settings import WeightSettings
from delegatec.language.testing import write_family

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

_FAMILIES: Final = ("Qwen3-MoE", "Mixtral", "gpt-oss", "GPT-2")
_SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "float32": {},
    "float16": {"weights": "float16"},
    "int8": {"weights": "int8"},
    "int4 in groups": {"weights": "int4", "group_size": 16},
}


def _rounded(weight: Tensor, form: Form) -> Tensor:
    """Returns a weight as its form represents it, matrix by matrix."""
    if weight.dim() > 2:
        return torch.stack([_rounded(each, form) for each in weight])
    matrix = weight.T if form.is_transposed else weight
    if form.is_integer:
        values, scale = quantized_rows(matrix.contiguous(), form)
        matrix = (values.view(*scale.shape, -1) * scale[..., None]).view(matrix.shape)
    elif form.dtype == "float16":
        matrix = matrix.half().float()
    return matrix.T if form.is_transposed else matrix


@pytest.mark.parametrize("settings", _SETTINGS)
@pytest.mark.parametrize("family", _FAMILIES)
def test_the_library_computes_the_same_with_rounded_weights(
    family: str, settings: str, tmp_path: Path
) -> None:
    network = write_family(family, tmp_path)
    chosen = _SETTINGS[settings]
    if "int" in settings:
        chosen = {**chosen, "activation": "float"}
    module = language_model(str(tmp_path), context=24, prefill=8, **chosen).module
    forms = forms_of(network_of(read_folder(str(tmp_path)).description), WeightSettings(**chosen))
    # that of GPT-2 shares its values with the embedding, whose form may be another
    network.lm_head.weight = nn.Parameter(network.lm_head.weight.detach().clone())
    state = network.state_dict()
    assert sum(form.per_expert or form.is_transposed for form in forms.values()) in (4, 8)
    tokens = torch.randint(0, 99, (1, 12))
    with torch.no_grad():
        for name, form in forms.items():
            state[name].copy_(_rounded(state[name], form))
        wanted = network(input_ids=tokens, use_cache=False).logits[0, -1]
        module(tokens[:, :8], torch.tensor([0]))
        module(tokens[:, 8:11], torch.tensor([8]))
        found = module(tokens[:, 11:], torch.tensor([11]))[0, 0]
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-4 * float(wanted.abs().max()))


@pytest.mark.parametrize("family", _FAMILIES)
def test_a_file_has_the_same_weights(family: str, tmp_path: Path) -> None:
    write_family(family, tmp_path / "folder")
    settings = {"weights": "int4", "group_size": 16}
    store_checkpoint(str(tmp_path / "folder"), str(tmp_path / "w"), network_of, WeightSettings(**settings))
    with safe_open(tmp_path / "w", "pt") as file:
        dtypes = {file.get_slice(name).get_dtype() for name in file.keys() if "_proj_" in name}  # noqa: SIM118
    assert dtypes <= {"I8", "F32"}
    modules = [
        language_model(str(tmp_path / "w"), context=24, prefill=8).module,
        language_model(str(tmp_path / "folder"), context=24, prefill=8, **settings).module,
    ]
    first, second = (module(torch.tensor([[5, 17, 93]]), torch.tensor([0])) for module in modules)
    assert torch.equal(first, second)


def test_groups_that_do_not_divide_the_features_of_experts(tmp_path: Path) -> None:
    write_family("Qwen3-MoE", tmp_path)
    with pytest.raises(DelegatecError, match=r'DC134.*"model.layers.0.mlp.experts"'):
        language_model(str(tmp_path), weights="int4", group_size=12)
