# SPDX-License-Identifier: Apache-2.0
"""Models of images and text, sound and text."""

from __future__ import annotations

from tests.architectures.case import Case, noise, ones, tokens

_TEXT = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 32,
    "eos_token_id": 2,
    "pad_token_id": 1,
    "bos_token_id": 0,
}
_IMAGE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "image_size": 32,
    "patch_size": 8,
}
_BOTH = {
    "input_ids": tokens(2, 8),
    "pixel_values": noise(2, 3, 32, 32),
    "attention_mask": ones(2, 8, padding=1),
}


def _pair(
    name: str,
    stem: str,
    model: str = "",
    text: dict | None = None,
    image: dict | None = None,
    **sizes: object,
) -> Case:
    if image is None:
        image = {}
    if text is None:
        text = {}
    return Case(
        name,
        "images and text",
        model or f"{stem}Model",
        f"{stem}Config",
        {
            "text_config": {**_TEXT, **text},
            "vision_config": {**_IMAGE, **image},
            "projection_dim": 16,
            **sizes,
        },
        _BOTH,
    )


MULTIMODAL = (
    _pair("CLIP", "CLIP"),
    _pair("Chinese-CLIP", "ChineseCLIP"),
    _pair("AltCLIP", "AltCLIP", text={"project_dim": 16}),
    _pair("SigLIP", "Siglip"),
    _pair(
        "CLIPSeg",
        "CLIPSeg",
        "CLIPSegForImageSegmentation",
        image={"num_hidden_layers": 3},
        extract_layers=[0, 1, 2],
        reduce_dim=16,
        decoder_num_attention_heads=2,
        decoder_intermediate_size=16,
    ),
    _pair("BLIP", "Blip", text={"encoder_hidden_size": 32, "projection_dim": 16}),
    _pair("OWL-ViT", "OwlViT"),
    _pair("OWLv2", "Owlv2", "Owlv2ForObjectDetection", projection_dim=32),
    _pair(
        "GroupViT",
        "GroupViT",
        image={"depths": [1, 1, 1], "num_group_tokens": [4, 2, 0], "num_output_groups": [4, 2, 0]},
    ),
    Case(
        "ViLT",
        "images and text",
        "ViltForQuestionAnswering",
        "ViltConfig",
        {**_TEXT, **_IMAGE, "max_image_length": 16},
        _BOTH,
        refusal=("DC112", "the number of patches that are not padding is a result"),
    ),
    Case(
        "VisualBERT",
        "images and text",
        "VisualBertModel",
        "VisualBertConfig",
        {**_TEXT, "visual_embedding_dim": 16},
        {"input_ids": tokens(1, 8), "visual_embeds": noise(1, 4, 16)},
    ),
    Case(
        "LXMERT",
        "images and text",
        "LxmertModel",
        "LxmertConfig",
        {**_TEXT, "visual_feat_dim": 16, "l_layers": 1, "x_layers": 1, "r_layers": 1},
        {"input_ids": tokens(1, 8), "visual_feats": noise(1, 4, 16), "visual_pos": noise(1, 4, 4)},
    ),
    Case(
        "BridgeTower",
        "images and text",
        "BridgeTowerModel",
        "BridgeTowerConfig",
        {
            "hidden_size": 32,
            "num_attention_heads": 4,
            "num_hidden_layers": 2,
            "text_config": {**_TEXT},
            "vision_config": {**_IMAGE, "hidden_size": 64, "num_hidden_layers": 4},
        },
        {**_BOTH, "pixel_mask": ones(2, 32, 32)},
    ),
    Case(
        "FLAVA",
        "images and text",
        "FlavaModel",
        "FlavaConfig",
        {
            "text_config": {**_TEXT},
            "image_config": {**_IMAGE},
            "multimodal_config": {
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "intermediate_size": 37,
            },
            "projection_dim": 16,
            "hidden_size": 32,
        },
        _BOTH,
    ),
    Case(
        "GIT",
        "images and text",
        "GitForCausalLM",
        "GitConfig",
        {**_TEXT, "vision_config": dict(_IMAGE), "use_cache": False},
        _BOTH,
    ),
    Case(
        "LLaVA",
        "images and text",
        "LlavaForConditionalGeneration",
        "LlavaConfig",
        {
            "vision_config": {**_IMAGE, "model_type": "clip_vision_model", "num_hidden_layers": 3},
            "text_config": {**_TEXT, "model_type": "llama", "num_key_value_heads": 2, "use_cache": False},
            "image_token_index": 98,
        },
        {
            "input_ids": lambda g, _: __import__("torch").tensor([[5, 6] + [98] * 16 + [7, 8]]),
            "pixel_values": noise(1, 3, 32, 32),
        },
    ),
    Case(
        "PaliGemma",
        "images and text",
        "PaliGemmaForConditionalGeneration",
        "PaliGemmaConfig",
        {
            "vision_config": {**_IMAGE, "model_type": "siglip_vision_model", "vision_use_head": False},
            "text_config": {
                **_TEXT,
                "model_type": "gemma",
                "num_key_value_heads": 2,
                "head_dim": 8,
                "use_cache": False,
            },
            "image_token_index": 98,
            "projection_dim": 32,
        },
        {
            "input_ids": lambda g, _: __import__("torch").tensor([[98] * 16 + [7, 8]]),
            "pixel_values": noise(1, 3, 32, 32),
            "token_type_ids": ones(1, 18, padding=18),
        },
    ),
    Case(
        "Idefics3",
        "images and text",
        "Idefics3ForConditionalGeneration",
        "Idefics3Config",
        {
            "vision_config": {**_IMAGE},
            "text_config": {**_TEXT, "model_type": "llama", "num_key_value_heads": 2, "use_cache": False},
            "use_cache": False,
            "scale_factor": 2,
            "image_token_id": 98,
            "pad_token_id": 0,
        },
        {
            "input_ids": lambda g, _: __import__("torch").tensor([[98] * 4 + [7, 8]]),
            "pixel_values": noise(1, 1, 3, 32, 32),
        },
    ),
    Case(
        "CLAP",
        "sound and text",
        "ClapModel",
        "ClapConfig",
        {
            "text_config": {**_TEXT, "projection_dim": 16},
            "audio_config": {
                "image_size": 60,
                "spec_size": 32,
                "num_mel_bins": 8,
                "window_size": 4,
                "depths": [1, 1],
                "num_attention_heads": [2, 2],
                "hidden_size": 32,
                "patch_size": 4,
                "patch_stride": [4, 4],
                "patch_embeds_hidden_size": 16,
                "projection_dim": 16,
                "enable_fusion": False,
            },
            "projection_dim": 16,
        },
        {"input_ids": tokens(1, 8), "input_features": noise(1, 1, 30, 8)},
    ),
    Case(
        "TrOCR decoder",
        "images and text",
        "TrOCRForCausalLM",
        "TrOCRConfig",
        {
            "vocab_size": 99,
            "d_model": 32,
            "decoder_layers": 2,
            "decoder_attention_heads": 4,
            "decoder_ffn_dim": 37,
            "max_position_embeddings": 32,
            "use_cache": False,
        },
        {"input_ids": tokens(1, 8)},
    ),
    Case(
        "X-CLIP",
        "video and text",
        "XCLIPModel",
        "XCLIPConfig",
        {
            "text_config": {**_TEXT},
            "vision_config": {
                **_IMAGE,
                "num_frames": 4,
                "mit_hidden_size": 32,
                "mit_intermediate_size": 37,
                "mit_num_attention_heads": 4,
                "mit_num_hidden_layers": 1,
                "drop_path_rate": 0.0,
            },
            "projection_dim": 32,
            "prompt_layers": 1,
            "prompt_num_attention_heads": 2,
        },
        {"input_ids": tokens(2, 8), "pixel_values": noise(1, 4, 3, 32, 32), "attention_mask": ones(2, 8)},
    ),
)
