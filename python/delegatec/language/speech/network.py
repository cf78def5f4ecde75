# SPDX-License-Identifier: Apache-2.0
"""Networks that take speech: built from a configuration without weights, which are then attached."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from delegatec.language.attention import NAME, register_attention
from delegatec.language.folder import Description
from delegatec.language.layer_kinds import AttentionLayer
from delegatec.language.library import Kind, compute_buffers, network_without_weights

_KIND: Final = Kind(
    name="a model of speech recognition",
    auto="AutoModelForSpeechSeq2Seq",
    mapping="MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    expected="a checkpoint of whisper or moonshine",
    families=("whisper", "moonshine"),
)
# Settings without an effect on results, which cost time.
_IGNORED: Final = {"pad_head_dim_to_multiple_of": None}


def network_of(description: Description) -> Any:
    """Returns a network in float32, with attention over caches; its weights have no memory.

    Its attribute `delegatec_layers` has the layers of its decoder by index.

    Args:
        description: the model.

    Raises:
        DelegatecError: DC103, transformers is missing; DC138, the family is not supported.
    """
    known = {name: value for name, value in _IGNORED.items() if name in description.config}
    description = replace(description, config={**description.config, **known})
    network = network_without_weights(description, _KIND)
    compute_buffers(network)
    register_attention()
    network.config._attn_implementation = NAME
    network.delegatec_layers = {
        index: _layer(each.self_attn) for index, each in enumerate(network.model.decoder.layers)
    }
    return network


def _layer(attention: Any) -> AttentionLayer:
    size: int = attention.head_dim
    return AttentionLayer(attention.k_proj.out_features // size, size, size, 0)
