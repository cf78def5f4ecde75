# SPDX-License-Identifier: Apache-2.0
"""The module that is exported: a waveform to the encoder's output, and tokens to logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from delegatec.language.speech.audio import check_size
from delegatec.language.speech.cache import AudioCache, TokenCache, Unmasked, joined


class SpeechToText(nn.Module):
    """An encoder and a decoder with state, as ExecuTorch's runner of speech recognition calls them.

    Args:
        network: a network of transformers that takes speech.
        features: the waveform [1, 1, samples] to the input of the encoder.
        rules: addends of the logits by position, float32 [positions, vocabulary], the last of which is that
            of all later ones; None for none.
        context: tokens that the cache holds.
        frames: the most frames of the encoder's output.
        cache: dtype of keys and values.
    """

    rules: Tensor | None

    def __init__(
        self,
        network: Any,
        features: nn.Module,
        rules: Tensor | None,
        context: int,
        frames: int,
        cache: str = "float32",
    ) -> None:
        super().__init__()
        self.network, self.features = network, features
        self.register_buffer("rules", rules, persistent=False)
        layers = network.delegatec_layers
        self.tokens = TokenCache({index: (layer,) for index, layer in layers.items()}, context, 1, cache)
        self.audio = AudioCache(layers, frames, cache)
        for name, module in network.named_modules():
            if name.endswith(("self_attn", "encoder_attn")):
                decoder = self.tokens if name.endswith("self_attn") else self.audio
                own = decoder if ".decoder." in name else Unmasked()
                object.__setattr__(module, "delegatec_cache", own)

    def encode(self, waveform: Tensor) -> Tensor:
        """Returns the encoder's output, float32 [1, frames, size].

        Args:
            waveform: float32 [1, 1, samples], mono, at the sampling rate of the model, between -1 and 1.
        """
        with self.network.delegatec_operands.of_one_call():
            result: Tensor = self.network.model.encoder(self.features(waveform)).last_hidden_state
        return result

    def decode(self, token: Tensor, encoder_output: Tensor, cache_position: Tensor) -> Tensor:
        """Predicts the next token.

        At position 0, keys and values of all frames are computed, and kept; later, those of the first frame
        only, again, since there are no empty operands.

        Args:
            token: int64 [1, 1].
            encoder_output: that of `encode`, the same for all tokens of a text.
            cache_position: int64 [1], the number of tokens before it.

        Returns:
            float32 logits [1, 1, vocabulary].
        """
        frames = encoder_output.shape[1]
        count: Any = torch.where(cache_position == 0, frames, 1).item()
        check_size(count, 1, frames)
        audio = self.audio.at(torch.arange(count), frames)
        with self.tokens.at(cache_position), audio, self.network.delegatec_operands.of_one_call():
            hidden = self.network.model.decoder(
                input_ids=token,
                position_ids=cache_position[None],
                encoder_hidden_states=encoder_output[:, :count],
                past_key_values=joined(self.tokens, self.audio),
                use_cache=True,
            ).last_hidden_state
            logits: Tensor = self.network.proj_out(hidden)
        if self.rules is not None:
            logits = logits + self.rules[cache_position.clamp(max=len(self.rules) - 1)]
        return logits
