# SPDX-License-Identifier: Apache-2.0
"""The networks of the comparison with other tools, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import models
import rivals_networks as networks
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

Inputs = tuple[Tensor, ...]
_BATCH: Final = 4
_TOKENS: Final = 128


@dataclass(frozen=True)
class Network:
    """A network to compare.

    Attributes:
        build: the module.
        sample: seed, number of items -> inputs.
        activation: how it is quantized, as in `Settings.activation` of our quantizer: "int8" with the ranges
            of samples, or "dynamic_int8" for the operands of its layers.
    """

    build: Callable[[], nn.Module]
    sample: Callable[[int, int], Inputs]
    activation: str

    def module(self) -> nn.Module:
        """Returns the module in evaluation mode; its batch norms have the statistics of some samples.

        With the statistics of a new layer, 0 and 1, random weights shrink the signal layer by layer, until
        biases are all that is left of the results.
        """
        torch.manual_seed(0)
        module = self.build()
        norms = [layer for layer in module.modules() if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d)]
        for norm in norms:
            norm.momentum = 1.0
        if norms:
            with torch.no_grad():
                module.train()(*self.sample(0, _BATCH))
        return module.eval()

    def inputs(self, number: int) -> Inputs:
        """Returns the inputs of a call."""
        return self.sample(100 + number, 1)

    def calibration(self) -> list[Inputs]:
        """Returns the samples that the tools quantize with."""
        return [self.sample(10 + number, 1) for number in range(_BATCH)]


class _Output(nn.Module):
    """A transformers model with positional inputs that returns one tensor instead of a dictionary."""

    def __init__(self, network: nn.Module, names: tuple[str, ...], field: str) -> None:
        super().__init__()
        self.network = network
        self.names = names
        self.field = field

    def forward(self, *inputs: Tensor) -> Tensor:
        found = self.network(**dict(zip(self.names, inputs, strict=True)))
        result: Tensor = getattr(found, self.field)
        return result


def _pictures(size: int) -> Callable[[int, int], Inputs]:
    """Returns smooth random pictures, float32 ``[items, 3, size, size]`` within -1..1."""

    def sample(seed: int, items: int) -> Inputs:
        generator = torch.Generator().manual_seed(seed)
        coarse = torch.rand(items, 3, 14, 14, generator=generator) * 2 - 1
        return (F.interpolate(coarse, size=(size, size), mode="bilinear"),)

    return sample


def _features(*shape: int) -> Callable[[int, int], Inputs]:
    def sample(seed: int, items: int) -> Inputs:
        generator = torch.Generator().manual_seed(seed)
        return (torch.randn(items, *shape, generator=generator),)

    return sample


def _texts(seed: int, items: int) -> Inputs:
    """Returns token ids, and a mask that ends within the last quarter."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(1000, 20000, (items, _TOKENS), generator=generator)
    length = torch.randint(3 * _TOKENS // 4, _TOKENS, (items, 1), generator=generator)
    return ids, (torch.arange(_TOKENS)[None] < length).to(torch.int64)


def _classifier(name: str, /, **settings: Any) -> Callable[[], nn.Module]:
    """Returns a builder of a classifier of pictures of transformers, from its class name's start."""

    def build() -> nn.Module:
        import transformers

        config = getattr(transformers, f"{name}Config")(num_labels=1000, **settings)
        network = getattr(transformers, f"{name}ForImageClassification")(config)
        return _Output(network, ("pixel_values",), "logits")

    return build


def _encoder(name: str, /, **settings: Any) -> Callable[[], nn.Module]:
    """Returns a builder of an encoder of texts of transformers, from its class name's start."""

    def build() -> nn.Module:
        import transformers

        config = getattr(transformers, f"{name}Config")(**settings)
        network = getattr(transformers, f"{name}Model")(config)
        return _Output(network, ("input_ids", "attention_mask"), "last_hidden_state")

    return build


def _segformer() -> nn.Module:
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(num_labels=150)
    return _Output(SegformerForSemanticSegmentation(config), ("pixel_values",), "logits")


def _whisper_encoder() -> nn.Module:
    from transformers import WhisperConfig, WhisperModel

    config = WhisperConfig(d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536)
    return _Output(WhisperModel(config).encoder, ("input_features",), "last_hidden_state")


_SMALL: Final = {
    "hidden_size": 384,
    "intermediate_size": 1536,
    "num_attention_heads": 6,
}
_MINILM: Final = {**_SMALL, "num_attention_heads": 12, "num_hidden_layers": 6}
# With the scales of new layers, the signal of these networks does not reach the results.
_CONVNEXT: Final = {"layer_scale_init_value": 0.3}
_EFFICIENTNET: Final = {
    "width_coefficient": 1.0,
    "depth_coefficient": 1.0,
    "hidden_dim": 1280,
    "image_size": 224,
    "initializer_range": 0.3,
}
_MOBILEVIT: Final = {"image_size": 256, "initializer_range": 0.1}


def _picture_network(build: Callable[[], nn.Module], activation: str = "int8", size: int = 224) -> Network:
    return Network(build, _pictures(size), activation)


def _text_network(build: Callable[[], nn.Module]) -> Network:
    return Network(build, _texts, "dynamic_int8")


NETWORKS: Final = {
    "MobileNetV2": _picture_network(_classifier("MobileNetV2")),
    "MobileNetV3-large": _picture_network(networks.mobilenet_v3),
    "EfficientNet-B0": _picture_network(_classifier("EfficientNet", **_EFFICIENTNET)),
    "ResNet-50": _picture_network(_classifier("ResNet")),
    "RegNetY-4GF": _picture_network(_classifier("RegNet")),
    "DenseNet-121": _picture_network(networks.densenet),
    "U-Net": _picture_network(networks.UNet, size=128),
    "detector, 320 px": _picture_network(networks.Detector, size=320),
    "ConvNeXt-tiny": _picture_network(_classifier("ConvNext", **_CONVNEXT), "dynamic_int8"),
    "ViT-small": _picture_network(_classifier("ViT", **_SMALL), "dynamic_int8"),
    "DeiT-small": _picture_network(_classifier("DeiT", **_SMALL), "dynamic_int8"),
    "Swin-tiny": _picture_network(_classifier("Swin"), "dynamic_int8"),
    "MobileViT-small": _picture_network(_classifier("MobileViT", **_MOBILEVIT), "dynamic_int8", 256),
    "SegFormer-B0": _picture_network(_segformer, "dynamic_int8", 256),
    "BERT-base": _text_network(_encoder("Bert")),
    "DistilBERT": _text_network(_encoder("DistilBert")),
    "MiniLM": _text_network(_encoder("Bert", **_MINILM)),
    "Whisper-tiny, encoder": Network(_whisper_encoder, _features(80, 3000), "dynamic_int8"),
    "LSTM": Network(networks.Recurrent, _features(100, 80), "dynamic_int8"),
    "Conformer": Network(networks.conformer, _features(200, 256), "dynamic_int8"),
}


def small() -> Network:
    """Returns the network of the tests: a convolution, and attention."""
    return Network(lambda: models.small().module, lambda seed, items: _features(4, 2, 4)(seed, items), "int8")
