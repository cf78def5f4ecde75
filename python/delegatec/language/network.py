# SPDX-License-Identifier: Apache-2.0
"""Networks of transformers: built from a configuration without weights, which are then attached."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import did_you_mean, first_line
from delegatec.language.attention import NAME, register_attention
from delegatec.language.decoder import NotUnderstoodError, layers_of
from delegatec.language.folder import CONFIG, Description
from delegatec.language.forms import Form
from delegatec.language.layers import Operands, store_weight
from delegatec.language.settings import WeightSettings


def network_of(description: Description) -> nn.Module:
    """Returns a network in float32, with attention over a `Cache`; its weights have no memory.

    Its attribute `delegatec_layers` has its layers with state by index.

    Args:
        description: the model.

    Raises:
        DelegatecError: DC103, transformers is missing; DC138, the configuration is not one of a decoder that
            transformers has, or the decoder is not supported.
    """
    try:
        from transformers import CONFIG_MAPPING, AutoModelForCausalLM
        from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    except ModuleNotFoundError as error:
        text = f'a language model needs transformers: no module named "{error.name}"'
        help = "install it, or add it to deps"
        raise DelegatecError([Diagnostic("DC103", text, expected="transformers 5.23", help=help)]) from error

    family = str(description.config.get("model_type", ""))
    _check_config(description.config, family, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    register_attention()
    try:
        config = CONFIG_MAPPING[family].from_dict(dict(description.config))
        with torch.device("meta"):
            network: Any = AutoModelForCausalLM.from_config(
                config, attn_implementation="eager", dtype=torch.float32
            )
    except Exception as error:
        # each configuration raises its own
        raise _unsupported(
            f"transformers rejects {CONFIG}: {type(error).__name__}: {first_line(error)}",
            "a configuration as it was published",
        ) from error
    network.eval().requires_grad_(False)
    try:
        network.delegatec_layers = layers_of(network)
        _compute_buffers(network)
    except NotUnderstoodError as error:
        raise _unsupported(
            f'the decoder "{family}" is not supported: {error}',
            "attention by the interface of transformers, to all earlier positions or a window of them, with "
            "keys and values in its cache, as in llama, qwen3 or gemma3_text",
            "take a checkpoint of another family, or export a module of your own with a cache in buffers",
        ) from error
    network.config._attn_implementation = NAME
    result: nn.Module = network
    return result


def context_limit(network: Any) -> int | None:
    """Returns the most tokens that a cache may hold; None for any number.

    Frequencies of rotary embeddings that depend on the length of the sequence are those of short sequences.
    """
    config = network.config
    limits = [getattr(config, "max_position_embeddings", None)]
    parameters = getattr(config, "rope_parameters", None) or {}
    for each in (parameters, *parameters.values()):
        if isinstance(each, Mapping) and each.get("rope_type") == "longrope":
            limits.append(each.get("original_max_position_embeddings"))
    return min((limit for limit in limits if limit), default=None)


def _check_config(config: Mapping[str, Any], family: str, known: Mapping[str, Any]) -> None:
    if quantization := config.get("quantization_config"):
        method = quantization.get("quant_method") if isinstance(quantization, Mapping) else None
        by = f" by {method}" if method else ""
        raise _unsupported(
            f"the checkpoint is quantized{by}: {CONFIG} has quantization_config",
            "weights in float32, bfloat16 or float16",
            'take the checkpoint that it was quantized from, and set weights = "int4" or "int8"',
        )
    if family not in known:
        code = "it needs code of the folder (auto_map), which does not run" if config.get("auto_map") else ""
        raise _unsupported(
            f'model_type "{family}" of {CONFIG} is not a language model of transformers',
            "a decoder that transformers has, such as llama, qwen3 or gemma3_text",
            code or did_you_mean(family, known),
        )
    if "text_config" in config:
        raise _unsupported(
            f'the decoder "{family}" is not supported: {CONFIG} has text_config: it takes more than text',
            "a decoder of text only",
            "take a checkpoint for text only, or save its language_model in a separate folder",
        )


def _compute_buffers(network: Any) -> None:
    """Computes the buffers that no checkpoint has, such as frequencies of rotary embeddings."""
    owners = dict.fromkeys(name.rpartition(".")[0] for name, _ in network.named_non_persistent_buffers())
    for owner in owners:
        module = network.get_submodule(owner)
        # elements that nothing computes keep what they had
        before, after = (_computed(network, module, fill) for fill in (0, 1))
        for name, buffer in after.items():
            if not torch.equal(before[name], buffer):
                raise NotUnderstoodError(f'it does not initialize its buffer "{owner}.{name}"')
        _keep_frequencies(module)


def _computed(network: Any, module: Any, fill: int) -> dict[str, torch.Tensor]:
    """Lets a network compute the buffers of a module, in place; returns them.

    Args:
        network: the network.
        module: the module.
        fill: the value of their elements before.
    """
    for name in module._non_persistent_buffers_set:
        module._buffers[name] = torch.full_like(module._buffers[name], fill, device="cpu")
    try:
        network._init_weights(module)
    except Exception as error:
        # each family has its own code
        text = f"its buffers cannot be computed: {type(error).__name__}: {first_line(error)}"
        raise NotUnderstoodError(text) from error
    return {name: module._buffers[name] for name in module._non_persistent_buffers_set}


def _keep_frequencies(module: Any) -> None:
    """Keeps rotary frequencies that would depend on the length: up to `context_limit`, they are these.

    The function inside the decorators does not enter and leave modes of autograd either, which torch.export
    would undo.
    """
    if hasattr(module, "rope_type"):
        module.__class__ = _undecorated(type(module))  # type: ignore[arg-type]


@functools.cache
def _undecorated(owner: type[nn.Module]) -> type[nn.Module]:
    members = {"__module__": owner.__module__, "forward": inspect.unwrap(owner.forward)}
    return type(owner.__name__, (owner,), members)


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


def store_weights(network: Any, forms: Mapping[str, Form], activation: str) -> None:
    """Gives layers of a network the forms of their stored weights, in place."""
    network.delegatec_operands = Operands()
    for name, form in forms.items():
        module = network.get_submodule(name.rpartition(".")[0])
        if form.dtype != "float32":
            store_weight(module, form, activation, network.delegatec_operands)


def tied_weights(network: Any, forms: Mapping[str, Form]) -> dict[str, str]:
    """Returns the weights that are stored once: name of a weight -> name of the one with its values."""
    tied: Mapping[str, str] = network.all_tied_weights_keys
    return {name: other for name, other in tied.items() if forms.get(name) == forms.get(other)}


def _unsupported(message: str, expected: str, help: str = "") -> DelegatecError:
    return DelegatecError([Diagnostic("DC138", message, expected=expected, help=help)])
