# SPDX-License-Identifier: Apache-2.0
"""Models that torchao quantizes: weights of linear layers and embeddings, and graphs with int8 activations.

With quantized activations, tolerances are quantization steps: a value halfway between two quantized values
may become either of them, because sums are computed in another order.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torchao.quantization import (
    Int8DynamicActivationInt8WeightConfig,
    Int8DynamicActivationIntxWeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    quantize_,
)
from torchao.quantization.granularity import PerAxis, PerGroup
from torchao.quantization.pt2e import allow_exported_model_train_eval
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from tests.architectures.case import Case, noise, tokens
from tests.quantized.small_quantizer import SmallQuantizer

_LLAMA = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "max_position_embeddings": 64,
    "use_cache": False,
}
_MOBILENET = {"image_size": 32, "depth_multiplier": 0.25, "min_depth": 8, "num_labels": 5}


class Graph(nn.Module):
    """A graph of torch.export, which has one mode.

    Args:
        graph: the graph.
    """

    def __init__(self, graph: nn.Module) -> None:
        super().__init__()
        allow_exported_model_train_eval(graph)
        self.graph = graph

    def forward(self, pixel_values: torch.Tensor) -> Any:
        """float32 [1, 3, 32, 32] to logits."""
        return self.graph(pixel_values=pixel_values)


def _weights(config: Any) -> Any:
    """Quantizes linear layers by a configuration, and embeddings to int8 rows."""

    def wrap(model: nn.Module) -> nn.Module:
        quantize_(model, config)
        rows = IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0))
        quantize_(model, rows, lambda module, name: isinstance(module, nn.Embedding))
        return model

    return wrap


def _graph(model: nn.Module) -> nn.Module:
    """Quantizes weights and activations, calibrated by one input."""
    example = {"pixel_values": torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(1))}
    prepared = prepare_pt2e(torch.export.export(model, (), example).module(), SmallQuantizer())
    with torch.no_grad():
        prepared(**example)
    return Graph(convert_pt2e(prepared))


def _llama(name: str, config: Any, tolerance: float) -> Case:
    return Case(
        f"Llama, {name}",
        "quantized",
        "LlamaForCausalLM",
        "LlamaConfig",
        _LLAMA,
        {"input_ids": tokens(2, 9)},
        wrap=_weights(config),
        tolerance=tolerance,
        mps_tolerance=tolerance,
    )


QUANTIZED = (
    _llama("int8", Int8WeightOnlyConfig(), 1e-5),
    _llama("int4", IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)), 1e-5),
    _llama("int8 activations", Int8DynamicActivationInt8WeightConfig(), 5e-2),
    _llama(
        "8da4w",
        Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32)),
        5e-2,
    ),
    Case(
        "MobileNetV2, int8",
        "quantized",
        "MobileNetV2ForImageClassification",
        "MobileNetV2Config",
        _MOBILENET,
        {"pixel_values": noise(1, 3, 32, 32)},
        wrap=_graph,
        tolerance=5e-2,
        mps_tolerance=5e-2,
    ),
)
