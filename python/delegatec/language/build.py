# SPDX-License-Identifier: Apache-2.0
"""`delegatec.language_model`: from a checkpoint to a model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import torch
from torch import nn
from torch.export import Dim

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.frontend import session
from delegatec.frontend.data import data_path
from delegatec.frontend.model import Model
from delegatec.language.folder import Description, read_folder
from delegatec.language.module import LanguageModel
from delegatec.language.network import context_limit, forms_of, network_of, store_weights
from delegatec.language.settings import WeightSettings
from delegatec.language.sources import weights_of
from delegatec.language.stored import read_stored, write_stored
from delegatec.language.weights import attach, in_memory

# Tokens of the example: torch.export takes a size of 1 for a constant.
_EXAMPLE: Final = 3
# Position of the example's first token: tests also take lower ones.
_POSITION: Final = 8


def language_model(
    checkpoint: str | os.PathLike[str],
    *,
    context: int = 2048,
    prefill: int = 256,
    weights: str = "float32",
    group_size: int = 0,
    embedding: str = "",
    activation: str = "",
) -> Model:
    """Returns a decoder with a cache of keys and values, as ExecuTorch's `TextLLMRunner` calls it.

    Its method `forward` takes tokens, int64 [1, 1 to `prefill`], and the number of tokens before them, int64
    [1], and returns the logits of the token after the last one, float32 [1, 1, vocabulary].

    Args:
        checkpoint: the folder of a checkpoint as Hugging Face publishes it, or a file that `delegatec
            checkpoint` wrote, which has the settings of weights. It is a declared data file (`data_path`).
        context: tokens that the cache holds.
        prefill: the most tokens of one call; longer prompts are several calls.
        weights: as in `WeightSettings`.
        group_size: as there.
        embedding: as there.
        activation: as there.

    Raises:
        DelegatecError: DC103, transformers is missing; DC115 to DC117, the checkpoint is missing, cannot be
            read, or does not match its configuration; DC130, DC134, DC136, settings of weights; DC138, a
            family or a size that is not supported.
    """
    try:
        path = checkpoint_path(os.fspath(checkpoint))
        settings = WeightSettings(weights, group_size, embedding, activation)
        network, description = (_converted if os.path.isdir(path) else _stored)(path, settings)
        if problems := list(_problems(network, context, prefill)):
            raise DelegatecError(problems)
    except DelegatecError as error:
        where = session.caller()
        raise DelegatecError(
            replace(each, location=each.location or where) for each in error.diagnostics
        ) from error
    vocabulary = network.config.vocab_size
    methods: dict[str, Any] = {
        "enable_dynamic_shape": True,
        "get_max_context_len": context,
        "get_max_seq_len": prefill,
        "get_vocab_size": vocabulary,
        "use_kv_cache": True,
    }
    if description.eos_ids:
        methods["get_eos_ids"] = description.eos_ids
    count = min(_EXAMPLE, prefill)
    return Model(
        LanguageModel(network, context),
        (torch.arange(count)[None] % vocabulary, torch.tensor([min(_POSITION, context - prefill)])),
        dynamic_shapes=({1: Dim("tokens", min=1, max=prefill)}, None) if prefill > 1 else None,
        constant_methods=methods,
    )


def store_checkpoint(directory: str, path: str, settings: WeightSettings) -> None:
    """Writes the weights of a checkpoint in the forms in which a program stores them.

    Args:
        directory: the folder of the checkpoint.
        path: the file to write.
        settings: how the weights are stored.

    Raises:
        DelegatecError: as `language_model`.
    """
    folder = read_folder(directory)
    network = network_of(folder.description)
    forms = forms_of(network, settings)
    write_stored(path, network, forms, weights_of(network, folder), folder.description, settings)


def checkpoint_path(name: str) -> str:
    """Returns the path of a declared folder or file; of a folder, its configuration may be declared."""
    try:
        return data_path(name)
    except DelegatecError as error:
        try:
            return os.path.dirname(data_path(os.path.join(name, "config.json")))
        except DelegatecError:
            raise error from None


def _converted(directory: str, settings: WeightSettings) -> tuple[Any, Description]:
    folder = read_folder(directory)
    network = network_of(folder.description)
    forms = forms_of(network, settings)
    tensors = in_memory(network, forms, weights_of(network, folder))
    store_weights(network, forms, settings.activation)
    attach(network, forms, tensors)
    return network, folder.description


def _stored(path: str, settings: WeightSettings) -> tuple[Any, Description]:
    if settings != WeightSettings():
        help = "set weights, group_size, embedding and activation where the file is written, only"
        text = f"{os.path.basename(path)} has the settings of its weights"
        raise DelegatecError([Diagnostic("DC136", text, expected="no settings besides", help=help)])
    stored = read_stored(path)
    network = network_of(stored.description)
    forms = forms_of(network, stored.settings)
    store_weights(network, forms, stored.settings.activation)
    attach(network, forms, stored.tensors)
    return network, stored.description


def _problems(network: nn.Module, context: int, prefill: int) -> Iterator[Diagnostic]:
    limit = context_limit(network) or context
    if not 1 <= prefill <= context:
        text = f"prefill = {prefill} is not between 1 and context = {context}"
        yield Diagnostic("DC138", text, expected="1 to context tokens", help="set prefill or context")
    if context > limit:
        yield Diagnostic(
            "DC138",
            f"context = {context} is beyond the {limit} positions of the model",
            expected=f"at most {limit} tokens",
            help="set a smaller context",
        )
