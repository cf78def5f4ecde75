# SPDX-License-Identifier: Apache-2.0
"""Folders of checkpoints of images and text for tests: small networks of each family with random weights."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import CONFIG_MAPPING, AutoModelForImageTextToText

from delegatec.language.testing import SIZES
from delegatec.language.vision.families import FAMILIES as FAMILIES_OF_NETWORKS

IMAGE_TOKEN: Final = 89
"""The token in whose place transformers puts an embedding of an image."""
SIDE: Final = 16
"""Rows and columns of an image."""
PREPROCESSOR: Final[dict[str, Any]] = {
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.5, 0.4, 0.3],
    "image_std": [0.2, 0.3, 0.4],
    "rescale_factor": 1 / 255,
    "size": {"height": SIDE, "width": SIDE},
}
"""Contents of `preprocessor_config.json`."""
_TEXT: Final = {**SIZES, "vocab_size": 90}
_VISION: Final[dict[str, Any]] = {
    "hidden_size": 32,
    "image_size": SIDE,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "patch_size": 4,
}
_CLIP: Final = {"model_type": "clip_vision_model", **_VISION}
_SIGLIP: Final = {"model_type": "siglip_vision_model", **_VISION}
_LAYER_TYPES: Final = ["sliding_attention", "full_attention"]
_LLAMA: Final = {"model_type": "llama", **_TEXT}
_QWEN2: Final = {"model_type": "qwen2", **_TEXT}
_COHERE2: Final = {"model_type": "cohere2", "sliding_window": 4, "layer_types": _LAYER_TYPES, **_TEXT}
# name -> model_type, and its configuration
FAMILIES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "LLaVA with CLIP": ("llava", {"text_config": _LLAMA, "vision_config": _CLIP}),
    "LLaVA with SigLIP": (
        "llava",
        {
            "text_config": _QWEN2,
            "vision_config": _SIGLIP,
            "vision_feature_layer": -1,
            "vision_feature_select_strategy": "full",
        },
    ),
    "VipLLaVA": (
        "vipllava",
        {"text_config": _LLAMA, "vision_config": _CLIP, "vision_feature_layers": [-2, -1]},
    ),
    "DeepSeek-VL": ("deepseek_vl", {"text_config": _LLAMA, "vision_config": _SIGLIP}),
    "GOT-OCR 2": (
        "got_ocr2",
        {
            "text_config": _QWEN2,
            "vision_config": {
                "hidden_size": 32,
                "global_attn_indexes": [1],
                "image_size": SIDE,
                "mlp_dim": 64,
                "num_attention_heads": 4,
                "num_hidden_layers": 2,
                "output_channels": 16,
                "patch_size": 1,
                "window_size": 4,
            },
        },
    ),
    "SmolVLM": ("smolvlm", {"text_config": _LLAMA, "vision_config": _VISION, "scale_factor": 2}),
    "Idefics3": ("idefics3", {"text_config": _LLAMA, "vision_config": _VISION, "scale_factor": 2}),
    "InternVL": (
        "internvl",
        {
            "text_config": _QWEN2,
            "vision_config": {**_VISION, "image_size": [SIDE, SIDE], "patch_size": [4, 4]},
            "image_seq_length": 4,
        },
    ),
    "Gemma 3": (
        "gemma3",
        {
            "text_config": {
                "model_type": "gemma3_text",
                "head_dim": 8,
                "sliding_window": 3,
                "layer_types": _LAYER_TYPES,
                **_TEXT,
            },
            "vision_config": _SIGLIP,
            "mm_tokens_per_image": 4,
        },
    ),
    "Aya Vision": (
        "aya_vision",
        {"text_config": _COHERE2, "vision_config": _SIGLIP, "vision_feature_select_strategy": "full"},
    ),
    "Cohere 2 Vision": (
        "cohere2_vision",
        {
            "text_config": _COHERE2,
            "vision_config": _SIGLIP,
            "alignment_intermediate_size": 64,
            "downsample_factor": 2,
        },
    ),
}


@dataclass(frozen=True)
class FloatModel:
    """A network as transformers runs it.

    Attributes:
        network: the network, in float32.
    """

    network: Any

    def inputs(self, tokens: list[int], images: list[Tensor]) -> dict[str, Tensor]:
        """Returns arguments of the network.

        Args:
            tokens: with `IMAGE_TOKEN` for each embedding of an image.
            images: uint8 [3, height, width], in their order.
        """
        ids = torch.tensor([tokens])
        result = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        family = FAMILIES_OF_NETWORKS[self.network.config.model_type]
        if family.is_bidirectional:
            result["token_type_ids"] = (ids == IMAGE_TOKEN).long()
        if images:
            pixels = torch.stack([normalized(image) for image in images])
            result["pixel_values"] = pixels[None] if family.is_tiled else pixels
        return result

    def continuation(self, tokens: list[int], images: list[Tensor], count: int) -> list[int]:
        """Returns the greedy continuation; arguments are those of `inputs`, and the number of tokens."""
        found = self.network.generate(
            **self.inputs(tokens, images), do_sample=False, max_new_tokens=count, pad_token_id=0
        )
        result: list[int] = found[0, len(tokens) :].tolist()
        return result


def normalized(image: Tensor) -> Tensor:
    """Returns the pixels of an image as preprocessors compute them, float32 [3, height, width]."""
    mean, deviation = (torch.tensor(PREPROCESSOR[f"image_{name}"])[:, None, None] for name in ("mean", "std"))
    result: Tensor = (image * PREPROCESSOR["rescale_factor"] - mean) / deviation
    return result


def random_image(seed: int) -> Tensor:
    """Returns an image, uint8 [3, SIDE, SIDE]."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (3, SIDE, SIDE), dtype=torch.uint8, generator=generator)


def write_image(path: str | Path, image: Tensor) -> None:
    """Writes an image, uint8 [3, height, width], as a portable pixmap."""
    header = f"P6\n# an image of a test\n{image.shape[2]} {image.shape[1]}\n255\n"
    Path(path).write_bytes(header.encode() + image.permute(1, 2, 0).contiguous().numpy().tobytes())


def write_family(name: str, folder: Path, **changes: Any) -> FloatModel:
    """Writes the folder of a network of `FAMILIES` with random weights; returns the network, in float32.

    Args:
        name: of the family.
        folder: the directory to write.
        **changes: of the configuration.
    """
    kind, config = FAMILIES[name]
    values = copy.deepcopy({"model_type": kind, "image_token_id": IMAGE_TOKEN, **config, **changes})
    values["image_token_index"] = IMAGE_TOKEN
    torch.manual_seed(0)
    make: Any = AutoModelForImageTextToText
    network = make.from_config(CONFIG_MAPPING[kind].from_dict(values))
    with torch.no_grad():
        for parameter in network.parameters():
            # norms of 1 and biases of 0 would hide an error
            parameter.copy_(torch.randn_like(parameter) * 0.15 + (parameter == 1))
        # an answer does not have it
        network.get_output_embeddings().weight[IMAGE_TOKEN] = 0
    # the stock runner stops at 0 if nothing else is said
    network.generation_config.eos_token_id = 0
    network.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPROCESSOR))
    _tokenizer(_TEXT["vocab_size"]).save(str(folder / "tokenizer.json"))
    loaded = make.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    return FloatModel(loaded.eval())


def _tokenizer(count: int) -> Any:
    """Returns a tokenizer with a token for each of the first printable characters."""
    tokenizer = Tokenizer(models.BPE({chr(33 + index): index for index in range(count)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer
