# SPDX-License-Identifier: Apache-2.0
"""Networks of language models: built from a configuration without weights, which are then attached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from torch import nn

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.language.attention import NAME, register_attention
from delegatec.language.decoder import NotUnderstoodError, layers_of
from delegatec.language.experts import NAME as EXPERTS
from delegatec.language.experts import names_of, register_experts
from delegatec.language.folder import CONFIG, Description
from delegatec.language.forms import Form
from delegatec.language.layers import Operands, store_weight
from delegatec.language.library import Kind, compute_buffers, family_of, network_without_weights, unsupported
from delegatec.language.lora.layers import calls_marked
from delegatec.language.settings import WeightSettings

_KIND: Final = Kind(
    name="a language model",
    auto="AutoModelForCausalLM",
    mapping="MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    expected="a decoder that transformers has, such as llama, qwen3 or gemma3_text",
)


def network_of(description: Description) -> Any:
    """Returns a network in float32, with attention over a `Cache`; its weights have no memory.

    Its attribute `delegatec_layers` has its layers with state by index.

    Args:
        description: the model.

    Raises:
        DelegatecError: DC103, transformers is missing; DC138, the configuration is not one of a decoder that
            transformers has, or the decoder is not supported.
    """
    family = family_of(description)
    if description.config.get("is_encoder_decoder"):
        raise unsupported(
            f'the decoder "{family}" is not supported: {CONFIG} has is_encoder_decoder: it needs an encoder',
            "a decoder of text only",
            "use speech_to_text for speech",
        )
    network = network_without_weights(description, _KIND)
    if "text_config" in description.config:
        raise unsupported(
            f'the decoder "{family}" is not supported: {CONFIG} has text_config: it takes more than text',
            "a decoder of text only",
            "use vision_language for images and text, or take a checkpoint for text only",
        )
    prepare_decoder(network)
    return network


def prepare_decoder(network: Any) -> None:
    """Gives a network `delegatec_layers`, attention over a `Cache`, and buffers with values, in place.

    Args:
        network: a network that generates text, without weights.

    Raises:
        DelegatecError: DC138, its decoder is not supported.
    """
    config = network.config.get_text_config()
    register_attention()
    register_experts()
    try:
        with calls_marked(network):
            network.delegatec_layers = layers_of(network)
        compute_buffers(network)
    except NotUnderstoodError as error:
        raise unsupported(
            f'the decoder "{config.model_type}" is not supported: {error}',
            "attention by the interface of transformers, to all earlier positions or a window of them, with "
            "keys and values in its cache, as in llama, qwen3 or gemma3_text",
            "take a checkpoint of another family, or export a module of your own with a cache in buffers",
        ) from error
    config._attn_implementation, config._experts_implementation = NAME, EXPERTS


def context_limit(network: Any) -> int | None:
    """Returns the most tokens that a cache may hold; None for any number.

    Frequencies of rotary embeddings that depend on the length of the sequence are those of short sequences.
    """
    config = network.config.get_text_config()
    limits = [getattr(config, "max_position_embeddings", None)]
    parameters = getattr(config, "rope_parameters", None) or {}
    for each in (parameters, *parameters.values()):
        if isinstance(each, Mapping) and each.get("rope_type") == "longrope":
            limits.append(each.get("original_max_position_embeddings"))
    return min((limit for limit in limits if limit), default=None)


def forms_of(network: Any, settings: WeightSettings) -> dict[str, Form]:
    """Returns the form of each weight of a linear layer, an expert or an embedding of tokens, by name.

    A layer that is tied to an embedding has its form, as they have one weight.
    Embeddings of positions stay in float32: they are small.

    Args:
        network: the network; its attribute `delegatec_vision`, if any, names modules that encode images.
        settings: how weights are stored.

    Raises:
        DelegatecError: DC134, `group_size` does not divide the input features of a layer, all of them.
    """
    forms = {}
    problems = []
    text, vision = Form(settings.weights, settings.group_size), Form(settings.vision_weights)
    if vision.dtype == text.dtype:
        vision = text
    tokens = network.get_input_embeddings()
    parts = tuple(f"{name}." for name in getattr(network, "delegatec_vision", ()))
    for name, module in network.named_modules():
        is_vision = name.startswith(parts)
        if module is tokens:
            forms[f"{name}.weight"] = _embedding(settings)
        for weight, form in _matrices(module, vision if is_vision else text):
            forms[f"{name}.{weight}"] = form
            (features,) = {each.shape[1] for each in form.matrices(weight, getattr(module, weight)).values()}
            if form.group_size and features % form.group_size:
                problems.append(
                    Diagnostic(
                        "DC134",
                        f"group_size = {form.group_size} does not divide the {features} "
                        f'input features of "{name}"',
                        expected="a divisor of the input features of each linear layer",
                        help="change group_size",
                    )
                )
    if problems:
        raise DelegatecError(problems)
    for name, other in network.all_tied_weights_keys.items():
        if {name, other} <= forms.keys():
            forms[name] = forms[other]
    return forms


def _embedding(settings: WeightSettings) -> Form:
    is_grouped = settings.embedding == settings.weights == "int4"
    return Form(settings.embedding, settings.group_size if is_grouped else 0)


def _matrices(module: Any, form: Form) -> Iterator[tuple[str, Form]]:
    """Yields the weights of layers that a module has, by name, and the forms of their matrices."""
    from transformers.pytorch_utils import Conv1D

    if isinstance(module, nn.Linear):
        # a factor has few columns, which groups may not divide
        is_narrow = form.is_integer and hasattr(module, "delegatec_is_factor")
        yield "weight", Form("int8") if is_narrow else form
    elif isinstance(module, Conv1D):
        yield "weight", replace(form, is_transposed=True)
    elif hasattr(module, "delegatec_experts"):
        for name in names_of(module):
            yield name, replace(form, is_transposed=module.is_transposed, per_expert=True)


def store_weights(network: Any, forms: Mapping[str, Form], activation: str) -> None:
    """Gives layers of a network the forms of their stored weights, in place."""
    network.delegatec_operands = Operands()
    for name, form in forms.items():
        owner, _, weight = name.rpartition(".")
        if form != Form("float32"):
            module = network.get_submodule(owner)
            store_weight(module, weight, form, activation, network.delegatec_operands)


def tied_weights(network: Any, forms: Mapping[str, Form]) -> dict[str, str]:
    """Returns the weights that are stored once: name of a weight -> name of the one with its values."""
    tied: Mapping[str, str] = network.all_tied_weights_keys
    return {name: other for name, other in tied.items() if forms.get(name) == forms.get(other)}
