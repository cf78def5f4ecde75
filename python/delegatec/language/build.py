# SPDX-License-Identifier: Apache-2.0
"""`delegatec.language_model`: from a checkpoint to a model."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import Any, Final

import torch
from torch import nn
from torch.export import Dim

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.frontend.model import Model
from delegatec.language.folder import Description
from delegatec.language.layer_kinds import AttentionLayer
from delegatec.language.loading import load_network, located
from delegatec.language.lora.layers import add_adapters
from delegatec.language.module import LanguageModel
from delegatec.language.network import context_limit, network_of
from delegatec.language.settings import CACHES, EXPERTS, WeightSettings, choice_problems

EXAMPLE: Final = 3
"""Tokens of the example: torch.export takes a size of 1 for a constant."""
POSITION: Final = 8
"""Position of the example's first token: tests also take lower ones."""


def language_model(
    checkpoint: str | os.PathLike[str],
    *,
    context: int = 2048,
    prefill: int = 256,
    weights: str = "float32",
    group_size: int = 0,
    embedding: str = "",
    activation: str = "",
    cache: str = "float32",
    adapter_rank: int = 0,
    adapter_modules: Collection[str] = (),
    draft_tokens: int = 0,
    experts: str = "rows",
) -> Model:
    """Returns a decoder with a cache of keys and values, as ExecuTorch's `TextLLMRunner` calls it.

    Its method `forward` takes tokens, int64 [1, 1 to `prefill`], and the number of tokens before them, int64
    [1], and returns the logits of the token after the last one, float32 [1, 1, vocabulary].

    Args:
        checkpoint: the folder of a checkpoint as Hugging Face publishes it, a GGUF file, or a file that
            `delegatec checkpoint` wrote, which has the settings of weights. It is a declared data file
            (`data_path`).
        context: tokens that the cache holds.
        prefill: the most tokens of one call; longer prompts are several calls.
        weights: as in `WeightSettings`.
        group_size: as there.
        embedding: as there.
        activation: as there.
        cache: dtype of keys and values in the cache: "float32", "float16", or "int8" with a scale for each
            row of a head.
        adapter_rank: rank of the adapters (LoRA) that an app may load, as a `.ptd`, next to the program; 0 if
            it has none.
        adapter_modules: names of the linear layers that they change, or the last parts of these names, such
            as "q_proj".
        draft_tokens: the most tokens of a draft model that a call checks: it returns the logits after these
            and the token before them, float32 [1, `draft_tokens` + 1, vocabulary], in place of the last.
        experts: how a mixture of experts computes: "rows", each expert in separate layers for the rows of the
            tokens that chose it, on a CPU; "matrices", each row in a product with the matrices of its expert,
            which MLX reads where they are, and other backends copy.

    Raises:
        DelegatecError: DC103, transformers is missing; DC115 to DC117, the checkpoint is missing, cannot be
            read, or does not match its configuration; DC130, DC134, DC136, settings of weights; DC138, a
            family or a size that is not supported.
    """
    try:
        settings = WeightSettings(weights, group_size, embedding, activation)
        network, description = load_network(checkpoint, network_of, settings)
        if problems := [
            *choice_problems("cache", cache, CACHES, "a language model"),
            *choice_problems("experts", experts, EXPERTS, "a language model"),
            *size_problems(network, context, prefill),
            *_expert_problems(network, experts),
            *_draft_problems(network, draft_tokens, prefill),
        ]:
            raise DelegatecError(problems)
        adapters = add_adapters(network, adapter_rank, adapter_modules)
    except DelegatecError as error:
        raise located(error) from error
    methods = runner_metadata(network, description, context, prefill)
    count = min(EXAMPLE, prefill)
    return Model(
        LanguageModel(network, context, prefill, cache, draft_tokens, experts),
        (
            torch.arange(count)[None] % methods["get_vocab_size"],
            torch.tensor([min(POSITION, context - prefill)]),
        ),
        dynamic_shapes=({1: Dim("tokens", min=1, max=prefill)}, None) if prefill > 1 else None,
        constant_methods=methods,
        external_weights=tuple(f"network.{name}" for name in adapters),
    )


def _expert_problems(network: Any, experts: str) -> Iterator[Diagnostic]:
    if experts == "matrices" and not any(hasattr(each, "delegatec_experts") for each in network.modules()):
        text = 'experts = "matrices" has no effect: the network has no experts'
        yield Diagnostic("DC138", text, expected="a mixture of experts", help="remove experts")


def _draft_problems(network: Any, draft_tokens: int, prefill: int) -> Iterator[Diagnostic]:
    if not 0 <= draft_tokens < prefill:
        text = f"draft_tokens = {draft_tokens} is not between 0 and prefill = {prefill}"
        help = "a call has one more token than it checks"
        yield Diagnostic("DC138", text, expected="0 to prefill - 1 tokens, such as 4", help=help)
    states = (state for states in network.delegatec_layers.values() for state in states)
    if draft_tokens and any(not isinstance(state, AttentionLayer) for state in states):
        text = "draft_tokens needs a model whose state is a cache of keys and values"
        expected = "a model with attention only, or no draft_tokens"
        help = "the state of a recurrence or a convolution has no way back from a wrong draft"
        yield Diagnostic("DC138", text, expected=expected, help=help)


def runner_metadata(network: Any, description: Description, context: int, prefill: int) -> dict[str, Any]:
    """Returns the methods that a stock runner calls for what it has to know of a model."""
    methods: dict[str, Any] = {
        "enable_dynamic_shape": True,
        "get_max_context_len": context,
        "get_max_seq_len": prefill,
        "get_vocab_size": network.config.get_text_config().vocab_size,
        "use_kv_cache": True,
    }
    if description.eos_ids:
        methods["get_eos_ids"] = description.eos_ids
    return methods


def size_problems(network: nn.Module, context: int, prefill: int) -> Iterator[Diagnostic]:
    """Yields what is wrong with the sizes of a program.

    Args:
        network: the network.
        context: tokens that the cache holds.
        prefill: the most tokens of one call.
    """
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
