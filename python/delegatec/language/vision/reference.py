# SPDX-License-Identifier: Apache-2.0
"""The float model of images and text, as transformers runs it: the oracle of programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from delegatec.language.reference import Reference
from delegatec.language.vision.families import FAMILIES
from delegatec.language.vision.images import ImageFormat
from delegatec.language.vision.prompts import images_of


class ImageTextReference(Reference):
    """The float model.

    Args:
        directory: the folder of its checkpoint.
        network: its network, without weights.
        images: uint8 [3, height, width], to which tokens refer.

    Raises:
        DelegatecError: as `Reference`.
    """

    _AUTO: ClassVar = "AutoModelForImageTextToText"

    def __init__(self, directory: str, network: Any, images: Sequence[Tensor]) -> None:
        super().__init__(directory)
        self._size: int = network.delegatec_image_tokens
        self._pixels = [_pixels(image, network.delegatec_image) for image in images]

    def _inputs(self, tokens: Sequence[int]) -> dict[str, Tensor]:
        config = self._network.config
        ids = [config.image_token_id if token < 0 else token for token in tokens]
        result = {"input_ids": torch.tensor([ids])}
        family = FAMILIES[config.model_type]
        if family.is_bidirectional:
            result["token_type_ids"] = torch.tensor([[int(token < 0) for token in tokens]])
        if found := images_of(tokens, self._size):
            pixels = torch.stack([self._pixels[index] for index in found])
            result["pixel_values"] = pixels[None] if family.is_tiled else pixels
        return result


def _pixels(image: Tensor, format: ImageFormat) -> Tensor:
    """Returns the pixels of an image as the preprocessor computes them, float32 [3, height, width]."""
    scale, offset = (torch.tensor(each)[:, None, None] for each in (format.scale, format.offset))
    return image * scale + offset
