# SPDX-License-Identifier: Apache-2.0
"""The models of the comparison for XNNPACK, in float32 and quantized, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import models
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from transformers import LlamaForCausalLM

from delegatec import Model

_PICTURES: Final = 4
_PROMPT: Final = 128


@dataclass(frozen=True)
class Subject:
    """A model to compare.

    Attributes:
        build: the model that both compilers lower.
        original: the same in float32, with the same weights; `build` where that is not quantized.
        calls: the number of a call -> inputs; those of the model if none.
    """

    build: Callable[[], Model]
    original: Callable[[], Model]
    calls: Callable[[int], tuple[Tensor, ...]] | None = None


class _Prompt(nn.Module):
    """A decoder from tokens to logits, without a cache."""

    def __init__(self, network: LlamaForCausalLM) -> None:
        super().__init__()
        self.network = network

    def forward(self, input_ids: Tensor) -> Tensor:
        logits: Tensor = self.network(input_ids=input_ids, use_cache=False).logits
        return logits


def _pictures(seed: int) -> Tensor:
    """Returns smooth random pictures, float32 ``[4, 3, 224, 224]`` within -1..1."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(_PICTURES, 3, 14, 14, generator=generator) * 2 - 1
    return F.interpolate(coarse, size=(224, 224), mode="bilinear")


def _normalized(build: Callable[[], Model]) -> Model:
    """Returns a model of pictures whose batch norms have the statistics of some pictures.

    With the statistics of a new layer, 0 and 1, random weights shrink the signal layer by layer, until biases
    are all that is left of the results.
    """
    model = build()
    norms = [layer for layer in model.module.modules() if isinstance(layer, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0
    with torch.no_grad():
        model.module.train()(pixel_values=_pictures(0))
    return Model(model.module.eval(), (), {"pixel_values": _pictures(1)[:1]})


def mobilenet_v2() -> Model:
    return _normalized(models.mobilenet_v2)


def resnet_50() -> Model:
    return _normalized(models.resnet_50)


def llama_prompt() -> Model:
    """Returns the decoder of `models.llama` for a prompt of 128 tokens."""
    step: Any = models.llama().module
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(32000, (1, _PROMPT), generator=generator)
    return Model(_Prompt(step.step.model).eval(), (tokens,), strict=True)


def mobilenet_v2_int8() -> Model:
    """Returns MobileNetV2 with static int8 by the peer's quantizer, calibrated with four pictures."""
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    model = mobilenet_v2()
    inputs = dict(model.example_kwargs or {})
    graph = torch.export.export(model.module, (), inputs).module()
    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(graph, quantizer)
    with torch.no_grad():
        for picture in _pictures(2).split(1):
            prepared(pixel_values=picture)
    return Model(convert_pt2e(prepared), (), inputs)


def llama_int8() -> Model:
    """Returns a step of the decoder with dynamic int8 activations and int8 weights, scaled per channel."""
    from torchao.quantization.granularity import PerAxis

    return _quantized(torch.int8, PerAxis(0))


def llama_int4() -> Model:
    """Returns a step of the decoder with dynamic int8 activations and int4 weights in groups of 32."""
    from torchao.quantization.granularity import PerGroup

    return _quantized(torch.int4, PerGroup(32))


def _quantized(weights: torch.dtype, granularity: Any) -> Model:
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_

    model = models.llama()
    config = Int8DynamicActivationIntxWeightConfig(weight_dtype=weights, weight_granularity=granularity)
    quantize_(model.module, config)
    return model


def _step(number: int) -> tuple[Tensor, ...]:
    """Returns token and position of a step: a sequence of different tokens."""
    return torch.tensor([[7 + 31 * number]]), torch.tensor([number])


def _plain(build: Callable[[], Model]) -> Subject:
    return Subject(build, build)


# Name in the table -> the model.
FLOAT: Final = {
    "MobileNetV2": _plain(mobilenet_v2),
    "ResNet-50": _plain(resnet_50),
    "ViT-base": _plain(models.vit_base),
    "DistilBERT": _plain(models.distilbert),
    "BERT-base": _plain(models.bert_base),
    "Llama, 110 M, 128 tokens": _plain(llama_prompt),
    "Llama, 110 M, a step": Subject(models.llama, models.llama, calls=_step),
}
QUANTIZED: Final = {
    "MobileNetV2, static int8": Subject(mobilenet_v2_int8, mobilenet_v2),
    "Llama, a step, int8": Subject(llama_int8, models.llama, calls=_step),
    "Llama, a step, int4": Subject(llama_int4, models.llama, calls=_step),
}
XNNPACK_MODELS: Final = {**FLOAT, **QUANTIZED}
