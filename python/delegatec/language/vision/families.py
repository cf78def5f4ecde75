# SPDX-License-Identifier: Apache-2.0
"""How families of networks turn an image into embeddings, which the decoder takes in the place of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor


def _features(network: Any, pixels: Tensor) -> Tensor:
    """Calls the family's own function."""
    found = network.get_image_features(pixels).pooler_output
    result: Tensor = torch.stack(list(found))
    return result


def _connected(network: Any, pixels: Tensor) -> Tensor:
    """Calls the parts of the family's function, which also drops images without a pixel other than 0."""
    model = network.model
    result: Tensor = model.connector(model.vision_model(pixel_values=pixels).last_hidden_state)
    return result


ENCODERS: Final[dict[str, Callable[[Any, Tensor], Tensor]]] = {
    "aya_vision": _features,
    "cohere2_vision": _features,
    "idefics3": _connected,
    "internvl": _features,
    "llava": _features,
    "smolvlm": _connected,
    "vipllava": _features,
}
"""`model_type` -> a function of a network and pixels, float32 [1, 3, H, W], to embeddings, [1, tokens, hidden].

All of these attend to earlier positions only, one position for each embedding: a test compares each with
transformers. Another family may look alike, and have positions in two dimensions, or a mask for images.
"""
TOWERS: Final = (
    "clip_vision_model",
    "idefics3_vision",
    "internvl_vision",
    "siglip_vision_model",
    "smolvlm_vision",
)
"""`model_type` of networks of images that have one size, and whose embeddings follow each other."""
MASKED: Final = ("gemma3", "paligemma")
"""Families whose embeddings of an image attend to each other in both directions."""
