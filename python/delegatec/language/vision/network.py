# SPDX-License-Identifier: Apache-2.0
"""Networks of images and text, without weights."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import nn

from delegatec.diagnostics import DelegatecError
from delegatec.diagnostics.exceptions import first_line
from delegatec.language.attention import ENCODER, register_attention
from delegatec.language.folder import CONFIG, Description
from delegatec.language.library import Kind, family_of, known_families, network_without_weights, unsupported
from delegatec.language.network import prepare_decoder
from delegatec.language.vision.families import FAMILIES, REFUSED, TOWERS
from delegatec.language.vision.images import image_format

_EXPECTED: Final = f"one of {', '.join(FAMILIES)}"
_KIND: Final = Kind(
    name="a language model of images and text",
    auto="AutoModelForImageTextToText",
    mapping="MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    expected=_EXPECTED,
)


def network_of(description: Description) -> Any:
    """Returns a network in float32, with attention over a `Cache` in its decoder, without weights.

    Besides `delegatec_layers`, it has `delegatec_vision`, the names of modules that compute embeddings of an
    image; `delegatec_image`, the format of images; and `delegatec_image_tokens`, the embeddings of one.

    Args:
        description: the model.

    Raises:
        DelegatecError: DC103, transformers is missing; DC115, the checkpoint has no preprocessor; DC117,
            it is that of another network; DC138, the family or its decoder is not supported.
    """
    family = family_of(description)
    _check_family(description, family)
    network = network_without_weights(description, _KIND)
    tower = network.config.vision_config
    # its files may have the name of the family
    kind = type(tower).model_type
    if kind not in TOWERS:
        raise _unsupported(family, f'its images are those of "{kind}"')
    register_attention()
    tower._attn_implementation = ENCODER
    network.delegatec_image = image_format(description, tower.image_size)
    network.delegatec_vision = _vision_modules(network)
    network.delegatec_image_tokens = _image_tokens(network, family)
    prepare_decoder(network)
    return network


def _check_family(description: Description, family: str) -> None:
    """Refuses what transformers has, but is not supported."""
    if family in FAMILIES:
        return
    if "vision_config" not in description.config:
        help = "use language_model for a checkpoint of text only"
        raise _unsupported(family, "it has no vision_config: it takes no images", help)
    if family in known_families(_KIND):
        unknown = "it is not known to take an image as embeddings at consecutive positions"
        raise _unsupported(family, REFUSED.get(family, unknown))


def _vision_modules(network: Any) -> tuple[str, ...]:
    """Returns the names of the modules besides the decoder and the layer of logits."""
    text = (network.get_decoder(), network.get_output_embeddings())
    base: nn.Module = network.base_model
    return tuple(
        f"{network.base_model_prefix}.{name}" for name, module in base.named_children() if module not in text
    )


def _image_tokens(network: Any, family: str) -> int:
    image = network.delegatec_image
    try:
        with torch.no_grad(), torch.device("meta"):
            result = FAMILIES[family].encode(network, torch.empty(1, 3, image.height, image.width))
    except Exception as error:
        # the code of each family raises its own
        reason = f"an image of {image.height} x {image.width} pixels: {type(error).__name__}"
        raise _unsupported(family, f"{reason}: {first_line(error)}") from error
    expected = network.config.get_text_config().hidden_size
    if result.dim() != 3 or result.shape[0] != 1 or result.shape[2] != expected:
        raise _unsupported(family, f"embeddings of an image have shape {list(result.shape)}")
    return int(result.shape[1])


def _unsupported(family: str, reason: str, help: str = "") -> DelegatecError:
    text = f'the family "{family}" of {CONFIG} is not supported: {reason}'
    return unsupported(text, _EXPECTED, help or "take a checkpoint of another family")
