# SPDX-License-Identifier: Apache-2.0
"""Models and operators where the peer is right: the same operations and constants, or others for a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tests.peer.classes import WORSE, classify
from tests.peer.defects import Embedding
from tests.peer.differential import RIGHT, compare
from tests.peer.suite import Call, PeerCase

torch.manual_seed(0)
X = torch.rand(2, 3, 4) - 0.5
Y = torch.rand(2, 3, 4) + 0.5
IMAGE = torch.rand(1, 4, 8, 8)


class Logits(nn.Module):
    """The logits of a model of transformers."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(pixel_values=x).logits


class First(nn.Module):
    """The first result of a layer that may have several."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.layer(x)
        return out[0] if isinstance(out, tuple) else out


def digits() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def mobilenet_v2() -> nn.Module:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    torch.manual_seed(0)
    return Logits(MobileNetV2ForImageClassification(MobileNetV2Config(num_labels=10, depth_multiplier=0.35)))


def bert_layer() -> nn.Module:
    from transformers import BertConfig
    from transformers.models.bert.modeling_bert import BertLayer

    torch.manual_seed(0)
    config = BertConfig(hidden_size=16, num_attention_heads=2, intermediate_size=32)
    config._attn_implementation = "eager"
    return First(BertLayer(config))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]] = {
    "digits": (digits, (torch.rand(1, 1, 8, 8),)),
    "mobilenet_v2": (mobilenet_v2, (torch.rand(1, 3, 64, 64),)),
    "embedding": (lambda: Embedding(None), (torch.tensor([[1, 2]]),)),
    "bert layer": (bert_layer, (torch.rand(1, 6, 16),)),
}
OPERATORS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "add": (torch.add, (X, Y)),
    "add with alpha": (lambda a, b: torch.add(a, b, alpha=2), (X, Y)),
    "sub": (torch.sub, (X, Y)),
    "mul by a number": (lambda a: a * 2.5, (X,)),
    "div": (torch.div, (X, Y)),
    "div floor": (lambda a, b: torch.div(a, b, rounding_mode="floor"), (X * 9, Y)),
    "pow": (lambda a: a.pow(2), (X,)),
    "exp": (torch.exp, (X,)),
    "tanh": (torch.tanh, (X,)),
    "rsqrt": (torch.rsqrt, (Y,)),
    "minimum": (torch.minimum, (X, Y)),
    "where": (lambda a, b: torch.where(a > b, a, b), (X, Y - 0.5)),
    "clamp": (lambda a: a.clamp(-0.1, 0.2), (X,)),
    "hardtanh": (F.hardtanh, (X * 9,)),
    "gelu": (F.gelu, (X,)),
    "leaky_relu": (lambda a: F.leaky_relu(a, 0.2), (X,)),
    "softmax": (lambda a: a.softmax(-1), (X,)),
    "log_softmax": (lambda a: a.log_softmax(1), (X,)),
    "bmm": (torch.bmm, (X, Y.transpose(1, 2).contiguous())),
    "mean": (lambda a: a.mean((1, 2), keepdim=True), (X,)),
    "max_pool2d": (lambda a: F.max_pool2d(a, 3, 2, padding=1), (IMAGE,)),
    "avg_pool2d": (lambda a: F.avg_pool2d(a, 3, 2, padding=1, count_include_pad=False), (IMAGE,)),
    "index_select": (lambda a, i: a.index_select(1, i) * 2.0, (X, torch.tensor([2, 0]))),
    "cat": (lambda a, b: torch.cat([a.exp(), b], 1), (X, Y)),
    "slice and select": (lambda a: a.exp()[:, 1:, 2], (X,)),
    "pad": (lambda a: F.pad(a.exp(), (1, 2), value=0.5), (X,)),
    "split": (lambda a: a.exp().split([1, 3], -1), (X,)),
    "layer_norm": (lambda a, w, b: F.layer_norm(a, (4,), w, b), (X, torch.rand(4), torch.rand(4))),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, 2, 1), (IMAGE, torch.rand(6, 4, 3, 3), torch.rand(6))),
    "conv2d depthwise": (lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 4), (IMAGE, torch.rand(4, 1, 3, 3))),
    "conv1d": (lambda x, w, b: F.conv1d(x, w, b, dilation=2), (IMAGE[0], torch.rand(6, 8, 3), torch.rand(6))),
}  # fmt: skip
CASES = {**MODELS, **{name: (lambda f=f: Call(f), args) for name, (f, args) in OPERATORS.items()}}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_as_right_as_the_peer_with_no_more_than_it_has(name: str) -> None:
    build, args = CASES[name]
    found = compare(PeerCase(name, build(), args))
    assert found is not None
    for comparison in found.values():
        verdict = classify(comparison)
        assert verdict.kind != WORSE, str(verdict)
        assert comparison.ours.result == RIGHT
        assert comparison.ours.delegates <= max(comparison.peer.delegates, 1)
