# SPDX-License-Identifier: Apache-2.0
"""Transformers that torchao quantizes, and a PT2E graph of images, as one delegate in the stock runtime."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from typing import Final

import pytest
import torch
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from torch import Tensor, nn
from torch.nn import functional as f
from torchao.core.config import AOBaseConfig
from torchao.quantization import (
    Int8DynamicActivationInt8WeightConfig,
    Int8DynamicActivationIntxWeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    quantize_,
)
from torchao.quantization.granularity import PerAxis, PerGroup
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from transformers import DistilBertConfig, DistilBertModel, LlamaForCausalLM

from delegatec import Model
from delegatec.backends.xnnpack.testing.grid import operations
from delegatec.frontend.export import export
from delegatec.lowering import lower
from delegatec.program import write_program
from tests.oracle.oracle import OracleProgram
from tests.quantized.llama import llama_config

TOKENS: Final = 16


class Output(nn.Module):
    """One tensor of the output of a model of transformers."""

    def __init__(self, network: nn.Module, name: str) -> None:
        super().__init__()
        self.network, self.name = network, name

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        result: Tensor = self.network(tokens, attention_mask=mask)[self.name]
        return result


def llama() -> tuple[nn.Module, tuple[Tensor, ...]]:
    model = Output(LlamaForCausalLM(llama_config(128, layers=1, tokens=TOKENS)), "logits")
    return model.eval(), (torch.arange(TOKENS)[None],)


def distilbert() -> tuple[nn.Module, tuple[Tensor, ...]]:
    config = DistilBertConfig(
        dim=128, hidden_dim=256, n_layers=1, n_heads=4, vocab_size=256, max_position_embeddings=TOKENS
    )
    mask = torch.ones(1, TOKENS, dtype=torch.int64)
    mask[:, 12:] = 0
    model = Output(DistilBertModel(config), "last_hidden_state")
    return model.eval(), (torch.arange(TOKENS)[None], mask)


def _int4() -> AOBaseConfig:
    return Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32))


# The quantization, whether activations are quantized at run time, and the largest share of the weights in
# bytes that the program has.
CONFIGS: Final[dict[str, tuple[Callable[[], AOBaseConfig], bool, float]]] = {
    "dynamic int8": (lambda: Int8DynamicActivationInt8WeightConfig(version=2), True, 0.3),
    "dynamic int8, intx": (
        lambda: Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int8, weight_granularity=PerAxis(0)),
        True,
        0.3,
    ),
    "dynamic int4, groups of 32": (_int4, True, 0.2),
    "int8 weights": (lambda: Int8WeightOnlyConfig(version=2), False, 0.3),
    "int8 weights, intx": (
        lambda: IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0)),
        False,
        0.3,
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("build", [llama, distilbert])
def test_a_transformer_is_one_delegate(
    build: Callable[[], tuple[nn.Module, tuple[Tensor, ...]]], name: str
) -> None:
    torch.manual_seed(0)
    config, is_dynamic, share = CONFIGS[name]
    model, inputs = build()
    layers = [each for each in model.modules() if isinstance(each, nn.Linear)]
    size = sum(layer.weight.numel() * 4 for layer in layers)
    other = sum(each.numel() * 4 for each in model.parameters()) - size
    with torch.no_grad():
        exact = model(*inputs)
        quantize_(model, config())
        wanted = model(*inputs)
    lowered = lower({"forward": export(Model(model, inputs))["forward"]}, "xnnpack")
    report = lowered.reports["forward"]
    (delegate,) = report.delegates
    left = {rejection.operator for rejection in report.rejections}
    assert left <= {"aten.embedding.default", "aten._to_copy.default"}
    found = Counter(operations(delegate.module.blob_bytes()))
    # layers of attention and of the feed-forward network read three and two values in common
    assert (found["Convert"] >= 4) == is_dynamic
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    assert len(file.getvalue()) < other + share * size + 40_000
    (result,) = OracleProgram(file.getvalue()).run(inputs)
    error = (result - wanted).abs().max()
    if not is_dynamic:
        assert error < 1e-5
    # the runtime quantizes with a zero point for each row
    assert error <= 1.1 * (wanted - exact).abs().max() + 1e-5


@pytest.mark.parametrize("name", CONFIGS)
def test_layers_of_a_model_in_float16_are_one_delegate(name: str) -> None:
    torch.manual_seed(0)
    config, is_dynamic, _ = CONFIGS[name]
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32)).half().eval()
    x = torch.randn(5, 64).half()
    with torch.no_grad():
        exact = model(x)
        quantize_(model, config())
        wanted = model(x)
    lowered = lower({"forward": export(Model(model, (x,)))["forward"]}, "xnnpack")
    report = lowered.reports["forward"]
    assert (len(report.delegates), report.rejections) == (1, [])
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    (result,) = OracleProgram(file.getvalue()).run((x,))
    error = (result - wanted).abs().max()
    # rows are quantized with a zero point, and values rounded to float16
    assert error <= (1.5 * (wanted - exact).abs().max() if is_dynamic else 2e-3)


class Images(nn.Module):
    """A part of MobileNetV2, with its paddings, activations and a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Conv2d(3, 8, 3, 2)
        self.deep = nn.Conv2d(8, 8, 3, 2, groups=8)
        self.project, self.expand = nn.Conv2d(8, 16, 1), nn.Conv2d(16, 16, 1)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = f.relu6(self.wide(f.pad(x, (0, 1, 0, 1))))
        x = self.project(f.relu6(self.deep(f.pad(x, (0, 1, 0, 1)))))
        x = x + self.expand(x)
        result: Tensor = self.head(x.mean((2, 3)))
        return result


@pytest.mark.parametrize("is_per_channel", [True, False])
def test_images_of_the_peers_quantizer_have_no_conversions_inside(is_per_channel: bool) -> None:
    torch.manual_seed(0)
    inputs = (torch.randn(1, 3, 32, 32),)
    config = get_symmetric_quantization_config(is_per_channel=is_per_channel)
    graph = torch.export.export(Images().eval(), inputs).module()
    prepared = prepare_pt2e(graph, XNNPACKQuantizer().set_global(config))
    with torch.no_grad():
        prepared(*inputs)
    model = convert_pt2e(prepared)
    wanted = model(*inputs)
    lowered = lower({"forward": export(Model(model, inputs))["forward"]}, "xnnpack")
    report = lowered.reports["forward"]
    (delegate,) = report.delegates
    assert not report.rejections
    found = [each for each in operations(delegate.module.blob_bytes()) if each != "Reshape"]
    layers = ["Convolution", "DepthwiseConvolution", "Convolution", "Convolution"]
    tail = ["Add", "GlobalAveragePooling", "FullyConnected", "Convert"]
    assert found == ["Convert", "Transpose", *layers, *tail]
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    (result,) = OracleProgram(file.getvalue()).run(inputs)
    scale = wanted.unique().diff().min()
    assert ((result - wanted) / scale).abs().max() < 3
