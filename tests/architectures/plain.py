# SPDX-License-Identifier: Apache-2.0
"""Networks in plain PyTorch, of kinds that transformers does not have."""

from __future__ import annotations

from torch import nn

from tests.architectures.case import Case, Input, integers, noise, uniform
from tests.architectures.networks import convolutional, dense, generative, hybrid, sequential, structured


def _case(name: str, family: str, network: type[nn.Module], /, **inputs: Input) -> Case:
    return Case(name, family, network, "", {}, inputs)


def _images(name: str, family: str, network: type[nn.Module], *shape: int) -> Case:
    return _case(name, family, network, pixels=noise(*(shape or (1, 3, 32, 32))))


def _recurrent(kind: str) -> Case:
    inputs = {"features": noise(2, 7, 12)}
    return Case(kind, "recurrent", sequential.Recurrent, "", {"kind": kind}, inputs)


PLAIN: tuple[Case, ...] = (
    _images("RepVGG", "vision", convolutional.RepVGG),
    _images("MobileOne", "vision", convolutional.MobileOne),
    _images("GhostNetV2", "vision", convolutional.GhostNetV2),
    _images("ShuffleNetV2", "vision", convolutional.ShuffleNetV2),
    _images("EfficientFormer", "vision", hybrid.EfficientFormer),
    _images("EdgeNeXt", "vision", hybrid.EdgeNeXt),
    _images("FastViT", "vision", hybrid.FastViT),
    _images("Involution and CARAFE", "vision", hybrid.Involution, 2, 8, 7, 6),
    _images("U-Net", "segmentation", dense.UNet, 2, 3, 38, 30),
    _images("DeepLabV3+", "segmentation", dense.DeepLabV3Plus, 2, 3, 40, 32),
    _images("YOLO", "detection", dense.YOLO, 2, 3, 64, 96),
    _images("ESPCN", "super-resolution", dense.ESPCN, 2, 3, 12, 10),
    _images("Heatmaps", "key points", dense.Heatmaps, 2, 3, 20, 16),
    _recurrent("LSTM"),
    _recurrent("GRU"),
    _recurrent("RNN"),
    _case("ConvLSTM", "recurrent", sequential.ConvLSTM, video=noise(2, 3, 3, 8, 6)),
    _case("TCN", "time series", sequential.TCN, signal=noise(2, 6, 20)),
    _case("Linear attention", "retention", sequential.LinearAttention, features=noise(2, 9, 32)),
    _case("WaveNet", "audio", sequential.WaveNet, signal=noise(2, 1, 50)),
    _case("Log-mel front end", "audio", sequential.LogMel, signal=noise(2, 400)),
    _case(
        "StyleGAN 2 layer",
        "generation",
        generative.ModulatedConvolution,
        pixels=noise(2, 6, 9, 7),
        style=noise(2, 5),
    ),
    _case(
        "DiT",
        "generation",
        generative.DiT,
        latents=noise(2, 4, 8, 6),
        time=integers(2, high=1000),
        label=integers(2, high=11),
    ),
    _case("VAE", "generation", generative.VAE, pixels=noise(2, 3, 12, 10), normal=noise(2, 16, 6, 5)),
    _case(
        "NeRF",
        "generation",
        generative.NeRF,
        origins=noise(4, 3),
        directions=noise(4, 3),
        times=uniform(4, 8, high=2.0),
    ),
    _case("Graph attention", "graphs", structured.GraphAttention, features=noise(2, 9, 6)),
    _case("PointNet", "points", structured.PointNet, points=noise(2, 3, 20)),
    _case("DLRM", "recommendation", structured.DLRM, dense=noise(2, 5), ids=integers(2, 3, 4, high=20)),
    _case("Fourier neural operator", "functions", structured.FourierOperator, function=noise(2, 2, 20)),
)
