# SPDX-License-Identifier: Apache-2.0
"""Networks of transformers: built from a configuration without weights, which are then attached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import did_you_mean, first_line
from delegatec.language.attention import NAME, register_attention
from delegatec.language.folder import CONFIG, Description
from delegatec.language.forms import Form
from delegatec.language.layers import store_weight
from delegatec.language.settings import WeightSettings


def network_of(description: Description) -> nn.Module:
    """Returns a network in float32, with attention over a `Cache`; its weights have no memory.

    Args:
        description: the model.

    Raises:
        DelegatecError: DC103, transformers is missing; DC138, the configuration is not one of a decoder that
            transformers has.
    """
    try:
        from transformers import CONFIG_MAPPING, AutoModelForCausalLM
        from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    except ModuleNotFoundError as error:
        text = f'a language model needs transformers: no module named "{error.name}"'
        help = "install it, or add it to deps"
        raise DelegatecError([Diagnostic("DC103", text, expected="transformers 5.23", help=help)]) from error

    family = str(description.config.get("model_type", ""))
    if family not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise _unsupported(
            f'model_type "{family}" of {CONFIG} is not a language model of transformers',
            "a decoder that transformers has, such as llama, qwen3 or gemma3_text",
            did_you_mean(family, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
            or "code of the folder (trust_remote_code) does not run",
        )
    register_attention()
    try:
        config = CONFIG_MAPPING[family].from_dict(dict(description.config))
        with torch.device("meta"):
            network: Any = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
                config, attn_implementation=NAME, dtype=torch.float32
            )
    except Exception as error:
        raise _unsupported(
            f"transformers rejects {CONFIG}: {type(error).__name__}: {first_line(error)}",
            "a configuration as it was published",
        ) from error
    _compute_buffers(network)
    result: nn.Module = network.eval().requires_grad_(False)
    return result


def _compute_buffers(network: Any) -> None:
    """Computes the buffers that no checkpoint has, such as frequencies of rotary embeddings."""
    owners = dict.fromkeys(name.rpartition(".")[0] for name, _ in network.named_non_persistent_buffers())
    for owner in owners:
        module = network.get_submodule(owner)
        for name in module._non_persistent_buffers_set:
            module._buffers[name] = torch.empty_like(module._buffers[name], device="cpu")
        network._init_weights(module)


def forms_of(network: nn.Module, settings: WeightSettings) -> dict[str, Form]:
    """Returns the form of each weight of a linear layer or an embedding, by name.

    Raises:
        DelegatecError: DC134, `group_size` does not divide the input features of a layer, all of them.
    """
    forms = {}
    problems = []
    for name, module in network.named_modules():
        if isinstance(module, nn.Embedding):
            forms[f"{name}.weight"] = Form(settings.embedding)
        elif isinstance(module, nn.Linear):
            form = Form(settings.weights, settings.group_size)
            forms[f"{name}.weight"] = form
            if form.group_size and module.in_features % form.group_size:
                problems.append(
                    Diagnostic(
                        "DC134",
                        f"group_size = {form.group_size} does not divide the {module.in_features} "
                        f'input features of "{name}"',
                        expected="a divisor of the input features of each linear layer",
                        help="change group_size",
                    )
                )
    if problems:
        raise DelegatecError(problems)
    return forms


def store_weights(network: nn.Module, forms: Mapping[str, Form], activation: str) -> None:
    """Gives layers of a network the forms of their stored weights, in place."""
    for name, form in forms.items():
        module = network.get_submodule(name.rpartition(".")[0])
        if form.dtype != "float32":
            store_weight(module, form, activation)


def tied_weights(network: Any, forms: Mapping[str, Form]) -> dict[str, str]:
    """Returns the weights that are stored once: name of a weight -> name of the one with its values."""
    tied: Mapping[str, str] = network.all_tied_weights_keys
    return {name: other for name, other in tied.items() if forms.get(name) == forms.get(other)}


def _unsupported(message: str, expected: str, help: str = "") -> DelegatecError:
    return DelegatecError([Diagnostic("DC138", message, expected=expected, help=help)])
