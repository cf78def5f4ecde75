# SPDX-License-Identifier: Apache-2.0
"""`delegatec.vision_language`: from a checkpoint to a model of images and text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch
from torch.export import Dim

from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.frontend.model import Method, Model
from delegatec.language.build import EXAMPLE, POSITION, runner_metadata, size_problems
from delegatec.language.loading import load_network, located
from delegatec.language.settings import CACHES, WeightSettings, choice_problems
from delegatec.language.vision.families import FAMILIES
from delegatec.language.vision.module import VisionLanguageModel
from delegatec.language.vision.network import network_of


def vision_language(
    checkpoint: str | os.PathLike[str],
    *,
    context: int = 2048,
    prefill: int = 1024,
    weights: str = "float32",
    group_size: int = 0,
    embedding: str = "",
    activation: str = "",
    vision_weights: str = "",
    cache: str = "float32",
) -> Model:
    """Returns a language model of images and text, as ExecuTorch's `MultimodalRunner` calls it.

    It has three methods: `vision_encoder` takes an image, uint8 [3, height, width], of the size that the
    checkpoint's preprocessor makes, and returns its embeddings, float32 [1, tokens, hidden];
    `token_embedding` returns those of tokens, int64 [1, n]; `text_decoder` takes embeddings, float32
    [1, 1 to `prefill`, hidden], and the number of those before them, int64 [1], and returns the logits of the
    token after the last one, float32 [1, 1, vocabulary].

    Args:
        checkpoint: the folder of a checkpoint as Hugging Face publishes it, or a file that `delegatec
            checkpoint` wrote, which has the settings of weights. It is a declared data file (`data_path`).
        context: tokens that the cache holds, with the embeddings of images.
        prefill: the most embeddings of one call: those of an image, and of a text between images, which the
            runner does not split.
        weights: as in `WeightSettings`.
        group_size: as there.
        embedding: as there.
        activation: as there.
        vision_weights: as there.
        cache: dtype of keys and values in the cache: "float32", "float16", or "int8" with a scale for each
            row of a head.

    Raises:
        DelegatecError: DC103, transformers is missing; DC115 to DC117, the checkpoint is missing, cannot be
            read, or does not match its configuration; DC130, DC134, DC136, settings of weights; DC138, a
            family or a size that is not supported.
    """
    try:
        settings = WeightSettings(weights, group_size, embedding, activation, vision_weights)
        network, description = load_network(checkpoint, network_of, settings)
        if problems := [
            *choice_problems("cache", cache, CACHES, "a model of images and text"),
            *_problems(network, context, prefill),
        ]:
            raise DelegatecError(problems)
    except DelegatecError as error:
        raise located(error) from error
    return Model(
        VisionLanguageModel(network, context, prefill, cache),
        methods=_methods(network, context, prefill),
        constant_methods=runner_metadata(network, description, context, prefill),
    )


def _problems(network: Any, context: int, prefill: int) -> Iterator[Diagnostic]:
    yield from size_problems(network, context, prefill)
    least = network.delegatec_image_tokens
    if prefill < least:
        yield Diagnostic(
            "DC138",
            f"prefill = {prefill} is less than the {least} tokens of an image",
            expected=f"at least {least}, and the tokens of the longest text",
            help="set a larger prefill",
        )


def _methods(network: Any, context: int, prefill: int) -> dict[str, Method]:
    image, config = network.delegatec_image, network.config.get_text_config()
    count = min(EXAMPLE, prefill)
    random = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (3, image.height, image.width), dtype=torch.uint8, generator=random)
    size = config.hidden_size + FAMILIES[network.config.model_type].is_bidirectional
    embeddings = torch.randn(1, count, size, generator=random)
    position = torch.tensor([min(POSITION, context - prefill)])
    # each method has its own size
    tokens, rows = ({1: Dim(name, min=1, max=prefill)} for name in ("tokens", "embeddings"))
    is_dynamic = prefill > 1
    return {
        "vision_encoder": Method("vision_encoder", (pixels,)),
        "token_embedding": Method(
            "token_embedding",
            (torch.arange(count)[None] % config.vocab_size,),
            dynamic_shapes=(tokens,) if is_dynamic else None,
        ),
        "text_decoder": Method(
            "text_decoder", (embeddings, position), dynamic_shapes=(rows, None) if is_dynamic else None
        ),
    }
