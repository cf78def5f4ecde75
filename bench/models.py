# SPDX-License-Identifier: Apache-2.0
"""The models of the benchmark, from their configurations, with random weights from a fixed seed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn

from delegatec import Model

_TOKENS: Final = 128
_PICTURE: Final = (1, 3, 224, 224)


class _Field(nn.Module):
    """A transformers model that returns one tensor instead of a dictionary."""

    def __init__(self, network: nn.Module, field: str) -> None:
        super().__init__()
        self.network = network
        self.field = field

    def forward(self, **inputs: Tensor) -> Tensor:
        result: Tensor = getattr(self.network(**inputs), self.field)
        return result


class _Step(nn.Module):
    """One step of a decoder: from a token and its position to logits, with keys and values in buffers."""

    def __init__(self, network: Any, length: int) -> None:
        super().__init__()
        from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

        self.step = TorchExportableModuleWithStaticCache(network, batch_size=1, max_cache_len=length)

    def forward(self, token: Tensor, position: Tensor) -> Tensor:
        logits: Tensor = self.step(input_ids=token, cache_position=position)
        return logits


def _picture(network: nn.Module) -> Model:
    inputs = {"pixel_values": torch.rand(_PICTURE) * 2 - 1}
    return Model(_Field(network, "logits"), (), inputs)


def _text(network: nn.Module) -> Model:
    inputs = {
        "input_ids": torch.randint(1000, (1, _TOKENS)),
        "attention_mask": torch.ones(1, _TOKENS, dtype=torch.int64),
    }
    return Model(_Field(network, "last_hidden_state"), (), inputs)


def small() -> Model:
    """Returns the model that warms up a process: a convolution, and attention."""
    attention = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    # The peer's Vulkan backend folds batch norms only of modules whose names are identifiers.
    layers = {"convolution": nn.Conv2d(4, 8, 1), "norm": nn.BatchNorm2d(8), "activation": nn.ReLU()}
    network = nn.Sequential(OrderedDict(**layers, rows=nn.Flatten(2), attention=attention))
    return Model(network, (torch.rand(1, 4, 2, 4),))


def mobilenet_v2() -> Model:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    return _picture(MobileNetV2ForImageClassification(MobileNetV2Config(num_labels=1000)))


def resnet_50() -> Model:
    from transformers import ResNetConfig, ResNetForImageClassification

    return _picture(ResNetForImageClassification(ResNetConfig(num_labels=1000)))


def vit_base() -> Model:
    from transformers import ViTConfig, ViTForImageClassification

    return _picture(ViTForImageClassification(ViTConfig(num_labels=1000)))


def distilbert() -> Model:
    from transformers import DistilBertConfig, DistilBertModel

    return _text(DistilBertModel(DistilBertConfig()))


def bert_base() -> Model:
    from transformers import BertConfig, BertModel

    return _text(BertModel(BertConfig()))


def llama() -> Model:
    """Returns a decoder of 110 M parameters with grouped-query attention and a cache of 256 positions."""
    from transformers import LlamaConfig, LlamaForCausalLM

    length = 256
    config = LlamaConfig(
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=12,
        num_attention_heads=12,
        num_key_value_heads=4,
        vocab_size=32000,
        max_position_embeddings=length,
        tie_word_embeddings=True,
    )
    network = LlamaForCausalLM(config)
    network.generation_config.cache_implementation = "static"
    return Model(_Step(network, length), (torch.tensor([[7]]), torch.tensor([0])), strict=True)


def linear_stack() -> Model:
    """Returns 32 float16 layers with half a gigaparameter: 1 GiB of weights, and a tiny graph."""
    width = 4096
    layers = [nn.Linear(width, width, dtype=torch.float16) for _ in range(32)]
    return Model(nn.Sequential(*layers), (torch.rand(1, width, dtype=torch.float16),))


# Name in the table -> its builder.
MODELS: Final[dict[str, Callable[[], Model]]] = {
    "MobileNetV2": mobilenet_v2,
    "ResNet-50": resnet_50,
    "ViT-base": vit_base,
    "DistilBERT": distilbert,
    "BERT-base": bert_base,
    "Llama, 100 M": llama,
    "linear, 0.5 G": linear_stack,
}
