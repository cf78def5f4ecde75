# SPDX-License-Identifier: Apache-2.0
"""How families of networks turn an image into embeddings, which the decoder takes instead of tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor


def _features(network: Any, pixels: Tensor) -> Tensor:
    """Calls the family's own function."""
    found = network.base_model.get_image_features(pixels).pooler_output
    result: Tensor = torch.stack(list(found))
    return result


def _connected(network: Any, pixels: Tensor) -> Tensor:
    """Calls the parts of the family's function, which also drops images without a pixel other than 0."""
    model = network.model
    result: Tensor = model.connector(model.vision_model(pixel_values=pixels).last_hidden_state)
    return result


@dataclass(frozen=True)
class Family:
    """How networks of a family take images.

    Attributes:
        encode: function of a network and pixels, float32 [1, 3, H, W], to embeddings, [1, tokens, hidden].
        is_tiled: whether their argument `pixel_values` has a dimension for texts before that for images.
        is_bidirectional: whether embeddings of an image attend to each other in both directions.
    """

    encode: Callable[[Any, Tensor], Tensor]
    is_tiled: bool = False
    is_bidirectional: bool = False


FAMILIES: Final = {
    "aya_vision": Family(_features),
    "cohere2_vision": Family(_features),
    "deepseek_vl": Family(_features),
    "gemma3": Family(_features, is_bidirectional=True),
    "got_ocr2": Family(_features),
    "idefics3": Family(_connected, is_tiled=True),
    "internvl": Family(_features),
    "llava": Family(_features),
    "smolvlm": Family(_connected, is_tiled=True),
    "vipllava": Family(_features),
}
"""`model_type` -> the family.

All of these attend to earlier positions, and to the same image if they are bidirectional, with one position
for each embedding: a test compares each with transformers. Another family may look alike, and have positions
in two dimensions, or another mask.
"""
TOWERS: Final = (
    "clip_vision_model",
    "got_ocr2_vision",
    "idefics3_vision",
    "internvl_vision",
    "siglip_vision_model",
    "smolvlm_vision",
)
"""`model_type` of networks of images that have one size, and whose embeddings follow each other."""
REFUSED: Final = {"paligemma": "an image attends to the text after it"}
"""`model_type` -> why no program can have the stock runner's calls, which are one for each image and text."""
