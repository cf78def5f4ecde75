# SPDX-License-Identifier: Apache-2.0
"""Configurations as they were published: what they say in their own way, and the tokens of an image."""

from __future__ import annotations

from typing import Any, Final

import pytest

from delegatec.language.folder import Description
from delegatec.language.vision.network import network_of

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

_HALF: Final = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
_SMOLVLM_TEXT: Final = {
    "model_type": "llama",
    "head_dim": 64,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "is_llama_config": True,
    "max_position_embeddings": 8192,
    "num_attention_heads": 9,
    "num_hidden_layers": 30,
    "num_key_value_heads": 3,
    "perceiver_config": {"model_type": "vllama3"},
    "rope_theta": 100000,
    "vocab_size": 49280,
}
_SMOLVLM_VISION: Final = {
    "hidden_size": 768,
    "image_size": 512,
    "max_image_size": {"longest_edge": 512},
    "num_attention_heads": 12,
    "patch_size": 16,
    "size": {"longest_edge": 2048},
}
_SMOLVLM_IMAGES: Final = {
    **_HALF,
    "do_image_splitting": True,
    "max_image_size": {"longest_edge": 512},
    "size": {"longest_edge": 2048},
}
# name -> its configuration, its preprocessor, rows and columns of an image, and its tokens
_PUBLISHED: Final[dict[str, tuple[dict[str, Any], dict[str, Any], int, int]]] = {
    "LLaVA 1.5": (
        {
            "model_type": "llava",
            "image_token_index": 32000,
            "text_config": {"model_type": "llama", "max_position_embeddings": 4096, "vocab_size": 32064},
            "vision_config": {
                "model_type": "clip_vision_model",
                "hidden_size": 1024,
                "image_size": 336,
                "intermediate_size": 4096,
                "num_attention_heads": 16,
                "num_hidden_layers": 24,
                "patch_size": 14,
                "projection_dim": 768,
                "vocab_size": 32000,
            },
            "vision_feature_layer": -2,
            "vision_feature_select_strategy": "default",
        },
        {
            "crop_size": {"height": 336, "width": 336},
            "do_center_crop": True,
            "image_mean": [0.48145466, 0.4578275, 0.40821073],
            "image_std": [0.26862954, 0.26130258, 0.27577711],
            "size": {"shortest_edge": 336},
        },
        336,
        576,
    ),
    "SmolVLM-256M": (
        {
            "model_type": "idefics3",
            "image_token_id": 49190,
            "scale_factor": 4,
            "text_config": _SMOLVLM_TEXT,
            # the name of the family, not of the tower
            "vision_config": {"model_type": "idefics3", **_SMOLVLM_VISION},
        },
        _SMOLVLM_IMAGES,
        512,
        64,
    ),
    "SmolVLM2-256M": (
        {
            "model_type": "smolvlm",
            "image_token_id": 49190,
            "scale_factor": 4,
            "text_config": _SMOLVLM_TEXT,
            "vision_config": {"model_type": "smolvlm_vision", **_SMOLVLM_VISION},
        },
        _SMOLVLM_IMAGES,
        512,
        64,
    ),
    "InternVL3-1B": (
        {
            "model_type": "internvl",
            "downsample_ratio": 0.5,
            "image_token_id": 151667,
            "text_config": {
                "model_type": "qwen2",
                "hidden_size": 896,
                "intermediate_size": 4864,
                "max_position_embeddings": 32768,
                "num_attention_heads": 14,
                "num_hidden_layers": 24,
                "num_key_value_heads": 2,
                "rope_scaling": {"factor": 2.0, "rope_type": "dynamic", "type": "dynamic"},
                "rope_theta": 1000000.0,
                "vocab_size": 151674,
            },
            "vision_config": {
                "model_type": "internvl_vision",
                "attention_bias": True,
                "hidden_size": 1024,
                "image_size": [448, 448],
                "intermediate_size": 4096,
                "num_attention_heads": 16,
                "num_hidden_layers": 24,
                "patch_size": [14, 14],
            },
        },
        {**_HALF, "crop_size": None, "do_center_crop": None, "size": {"height": 448, "width": 448}},
        448,
        256,
    ),
    "Gemma 3 4B": (
        {
            "model_type": "gemma3",
            "image_token_index": 262144,
            "mm_tokens_per_image": 256,
            "text_config": {
                "model_type": "gemma3_text",
                "hidden_size": 2560,
                "intermediate_size": 10240,
                "num_hidden_layers": 34,
                "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
                "sliding_window": 1024,
            },
            "vision_config": {
                "model_type": "siglip_vision_model",
                "hidden_size": 1152,
                "image_size": 896,
                "intermediate_size": 4304,
                "num_attention_heads": 16,
                "num_hidden_layers": 27,
                "patch_size": 14,
                "vision_use_head": False,
            },
        },
        {**_HALF, "do_pan_and_scan": None, "size": {"height": 896, "width": 896}},
        896,
        256,
    ),
}


@pytest.mark.parametrize("name", _PUBLISHED)
def test_a_published_configuration_is_understood(name: str) -> None:
    """Without weights."""
    config, preprocessor, side, tokens = _PUBLISHED[name]
    network = network_of(Description(config, {}, preprocessor))
    image = network.delegatec_image
    assert (image.height, image.width, network.delegatec_image_tokens) == (side, side, tokens)
    expected = config.get("image_token_id", config.get("image_token_index"))
    assert network.config.image_token_id == expected
