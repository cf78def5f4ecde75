# SPDX-License-Identifier: Apache-2.0
"""The module that is exported: images and tokens to embeddings, and embeddings to logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from delegatec.language.module import Decoder
from delegatec.language.vision.families import FAMILIES


class VisionLanguageModel(Decoder):
    """A language model of images and text, as ExecuTorch's `MultimodalRunner` calls it.

    Embeddings have an element more than the network's if the family is bidirectional. A call then has those
    of one image, or of a text.

    Args:
        network: a network of `delegatec.language.vision.network`.
        context: tokens that the cache holds.
        prefill: the most tokens of a call.
        cache: dtype of keys and values in the cache.
    """

    def __init__(self, network: Any, context: int, prefill: int, cache: str = "float32") -> None:
        super().__init__(network, context, prefill, cache)
        self.family = FAMILIES[network.config.model_type]
        image = network.delegatec_image
        for name in ("scale", "offset"):
            values = torch.tensor(getattr(image, name)).view(1, -1, 1, 1)
            self.register_buffer(f"image_{name}", values, persistent=False)

    def vision_encoder(self, image: Tensor) -> Tensor:
        """Returns the embeddings of an image, float32 [1, tokens, hidden].

        Args:
            image: uint8 [3, height, width], as the preprocessor resizes it.
        """
        scale, offset = self.get_buffer("image_scale"), self.get_buffer("image_offset")
        pixels = image[None].to(torch.float32) * scale + offset
        with self.network.delegatec_operands.of_one_call():
            return self._marked(self.family.encode(self.network, pixels), 1.0)

    def token_embedding(self, tokens: Tensor) -> Tensor:
        """Returns the embeddings of tokens, float32 [1, n, hidden].

        Args:
            tokens: int64 [1, n].
        """
        return self._marked(self.network.get_input_embeddings()(tokens), 0.0)

    def text_decoder(self, embeddings: Tensor, start_pos: Tensor) -> Tensor:
        """Predicts the token after the last one, float32 [1, 1, vocabulary].

        Args:
            embeddings: float32 [1, n, hidden], at `start_pos` and after it.
            start_pos: int64 [1], the number of tokens and embeddings of images before them.
        """
        is_image = None
        if self.family.is_bidirectional:
            is_image, embeddings = embeddings[0, :, -1] > 0, embeddings[:, :, :-1]
        return self.logits(embeddings.shape[1], start_pos, is_image, inputs_embeds=embeddings)

    def _marked(self, embeddings: Tensor, mark: float) -> Tensor:
        """Returns embeddings with a further element, 1 for an image, where the decoder has to know of images.

        The runner passes them on as they are, and nothing else from one method to the other.
        """
        return functional.pad(embeddings, (0, 1), value=mark) if self.family.is_bidirectional else embeddings
