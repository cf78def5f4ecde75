# SPDX-License-Identifier: Apache-2.0
"""Weights of experts, and those of layers with columns first: quantized by rows of outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import torch
from safetensors import safe_open
from torch import Tensor, nn

from delegatec import export, language_model, lower
from delegatec.backends.mlx.testing import operations
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


_MIXTURES: Final = ("Qwen3-MoE", "Mixtral", "gpt-oss")


@pytest.mark.parametrize("settings", _SETTINGS)
@pytest.mark.parametrize("family", _MIXTURES)
def test_products_with_chosen_matrices(family: str, settings: str, tmp_path: Path) -> None:
    """They have the results of the separate layers, and no other weights."""
    write_family(family, tmp_path)
    chosen = _SETTINGS[settings]
    rows, matrices = (
        language_model(str(tmp_path), context=24, prefill=8, experts=experts, **chosen).module
        for experts in ("rows", "matrices")
    )
    assert not any("_proj_0" in name for name, _ in matrices.named_buffers())
    count = sum(each.numel() for each in rows.network.buffers())
    assert sum(each.numel() for each in matrices.network.buffers()) == count
    for start, tokens in ((0, [5, 17, 93, 2]), (4, [7])):
        given = torch.tensor([tokens]), torch.tensor([start])
        with torch.no_grad():
            torch.testing.assert_close(matrices(*given), rows(*given), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("weights", "product"), [({}, "GatherMm"), ({"weights": "int4", "group_size": 32}, "GatherQmm")]
)
def test_chosen_matrices_in_mlx(weights: dict[str, Any], product: str, tmp_path: Path) -> None:
    """One delegate, with a product for each layer of the experts of two mixtures."""
    write_family("Mixtral", tmp_path)
    own = {**weights, "activation": "float", "embedding": "float32"} if weights else {}
    model = language_model(str(tmp_path), context=24, prefill=8, experts="matrices", **own)
    lowered = lower(export(model), "mlx")
    report = lowered.reports["forward"]
    assert (len(report.delegates), report.rejections) == (1, [])
    names = operations(report.delegates[0].module.blob_bytes())
    assert names.count(product) == 4 and "Dequantize" not in names


def test_matrices_of_a_network_without_experts(tmp_path: Path) -> None:
    write_family("Llama", tmp_path)
    with pytest.raises(DelegatecError, match=r"DC138.*has no experts"):
        language_model(str(tmp_path), experts="matrices")
    with pytest.raises(DelegatecError, match=r'DC130.*experts = "layers"'):
        language_model(str(tmp_path), experts="layers")


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
