# SPDX-License-Identifier: Apache-2.0
"""The models of the comparison for Ethos-U, each with samples that both quantizers observe."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from delegatec import Model

Case = tuple[nn.Module, Sequence[Tensor]]
"""A module with one input, and samples of it."""


class _Logits(nn.Module):
    """A classifier of `transformers` without the dictionary around its output."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> Tensor:
        """Returns the logits."""
        result: Tensor = self.network(pixels).logits
        return result


def warm_up() -> Case:
    """Returns a layer."""
    return nn.Conv2d(3, 4, 3), [torch.randn(1, 3, 8, 8)]


def small_cnn() -> Case:
    """Returns two convolutions, pools, and a classifier."""
    features = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    features += [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*features, nn.Flatten(), nn.Linear(32 * 7 * 7, 10)), [torch.randn(1, 1, 28, 28)]


def padded_convolutions() -> Case:
    """Returns convolutions with padding before each, more on one side."""
    layers: list[nn.Module] = []
    for channels, outputs, stride in ((3, 16, 2), (16, 16, 1), (16, 32, 2), (32, 32, 1)):
        layers += [nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(channels, outputs, 3, stride), nn.ReLU6()]
    return nn.Sequential(*layers), [torch.randn(1, 3, 64, 64)]


def mobilenet_v2(explicit: bool, labels: int) -> Case:
    """Returns MobileNetV2 for 224 x 224 images, with random weights and the statistics of its norms.

    Args:
        explicit: whether padding is before convolutions, as in TensorFlow, or inside of them.
        labels: number of logits.
    """
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    config = MobileNetV2Config(image_size=224, tf_padding=explicit, num_labels=labels)
    network = MobileNetV2ForImageClassification(config)
    norms = [each for each in network.modules() if isinstance(each, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = None
    with torch.no_grad():
        network.train()(torch.randn(4, 3, 224, 224))
    return _Logits(network.eval()), [torch.randn(1, 3, 224, 224)]


def keywords() -> Case:
    """Returns the trained keyword spotter of the examples."""
    return _module("keywords"), [*importlib.import_module("keyword_samples").build()]


def digits() -> Case:
    """Returns the trained classifier of the examples."""
    module = _module("digits")
    path = Path(str(importlib.import_module("digits").__file__)).with_name("calibration.safetensors")
    return module, [*load_file(path)["pixels"]]


def _module(name: str) -> nn.Module:
    model: Any = importlib.import_module(name).build()
    assert isinstance(model, Model) and isinstance(model.module, nn.Module)
    return model.module


# Name in the table -> its builder.
ETHOS_U_MODELS: Final[dict[str, Callable[[], Case]]] = {
    "small CNN": small_cnn,
    "4 padded convolutions": padded_convolutions,
    "digits": digits,
    "keywords": keywords,
    "MobileNetV2": partial(mobilenet_v2, False, 1001),
    "MobileNetV2, explicit padding": partial(mobilenet_v2, True, 2),
}
