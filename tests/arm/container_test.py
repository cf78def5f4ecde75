# SPDX-License-Identifier: Apache-2.0
"""Containers of models for Ethos-U have the bytes of the peer's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import torch
from torch.export import ExportedProgram
from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

from delegatec.backends.arm.ethos_u.accelerator import Accelerator
from delegatec.backends.arm.ethos_u.container import read_container, write_container
from delegatec.backends.arm.ethos_u.settings import EthosUSettings
from delegatec.backends.arm.ethos_u.vela import compile_graph
from delegatec.lowering import lower
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized
from tests.arm.models import Sample, convolutions
from tests.oracle.vela_peer import peer_container


class Images(torch.nn.Module):
    """The network of transformers, from images to logits."""

    def __init__(self) -> None:
        super().__init__()
        # all kinds of layers, with few channels: the number of bytes says nothing
        self.network = MobileNetV2ForImageClassification(
            MobileNetV2Config(image_size=96, depth_multiplier=0.35, num_labels=40)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.network(x).logits
        return logits


class Several(torch.nn.Module):
    """Two images of other sizes to a sum, features and a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(3, 4, 3, stride=2), torch.nn.Conv2d(2, 4, 1)

    def forward(
        self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        features = torch.relu(self.first(x))
        return features + self.second(y), features.mean((2, 3)), z * torch.sigmoid(z)


def _mobilenet() -> Sample:
    return Images(), (torch.rand(1, 3, 96, 96) * 2 - 1,)


def _several() -> Sample:
    return Several(), (torch.randn(1, 3, 15, 13), torch.randn(1, 2, 7, 6), torch.randn(2, 5))


_MODELS: Final[Mapping[str, tuple[Callable[[], Sample], str, int]]] = {
    "MobileNetV2": (_mobilenet, "int8", 2),
    "int16": (convolutions, "int16", 2),
    "several": (_several, "int8", 6),
}
"""Name -> the model, the dtype of its activations, and how many inputs and outputs it has."""


@cache
def _quantized(name: str) -> ExportedProgram:
    torch.manual_seed(0)
    model, args = _MODELS[name][0]()
    return quantized(model, args, Settings(activation=_MODELS[name][1], observer="minmax")).methods["forward"]


def _graph(name: str, accelerator: str) -> bytes:
    """Returns the TOSA graph of a quantized model, which is one delegate."""
    options = {"accelerator": accelerator, "stage": "tosa"}
    lowered = lower({"forward": deepcopy(_quantized(name))}, "ethos_u", options)
    (delegate,) = lowered.reports["forward"].delegates
    return delegate.module.blob_bytes()


@pytest.mark.parametrize("name", _MODELS)
@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
def test_bytes_are_those_of_the_peer(name: str, accelerator: str, tmp_path: Path) -> None:
    graph = _graph(name, accelerator)
    settings = EthosUSettings(accelerator=Accelerator(accelerator))
    compiled, _ = compile_graph([graph], settings)
    ours = write_container(compiled)
    assert ours == peer_container(graph, settings, tmp_path)
    assert len(compiled.inputs) + len(compiled.outputs) == _MODELS[name][2]
    assert read_container(memoryview(ours)) == compiled
