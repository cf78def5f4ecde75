# SPDX-License-Identifier: Apache-2.0
"""Networks on XNNPACK in the stock runtime: one delegate each, and few transposes inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import nn
from torch.export import Dim

from delegatec.backends.xnnpack.testing.grid import operations
from delegatec.delegation import DelegationReport
from delegatec.edge.testing.networks import NETWORKS
from tests.oracle.xnnpack import run_in_runtime

# Network -> the transposes inside its delegate; then the peer's delegates and the transposes inside of them,
# or None if it fails (to_edge_transform_and_lower with XnnpackPartitioner, ExecuTorch 1.4.1).
_TRANSPOSES: Final[dict[str, tuple[int, tuple[int, int] | None]]] = {
    "squeeze and excite": (2, (1, 2)),
    "squeeze and excite by linear": (2, (2, 4)),
    "concatenation": (2, (1, 2)),
    "chunks": (2, (2, 5)),
    "shuffle": (2, (1, 5)),
    "depthwise shuffle": (2, (1, 5)),
    "grouped shuffle": (2, (1, 5)),
    "padding": (2, (1, 2)),
    "ConvNeXt": (2, (3, 9)),
    "group norm": (2, (3, 4)),
    "attention": (5, (6, 6)),
    "classifier": (1, None),
    "residual": (1, (1, 2)),
    "U-Net": (3, None),  # one of a transposed convolution, which is a linear layer
    "U-Net that resizes": (2, None),
    "detector": (2, (2, 3)),
    "anchors": (3, (1, 5)),
    "pixel shuffle": (3, (1, 5)),
    "windows": (3, (2, 5)),
    "audio": (1, (2, 4)),
    "decoder": (1, (1, 2)),
}


def _found(report: DelegationReport) -> list[str]:
    """Returns the operations of the only delegate."""
    assert report.rejections == []
    (delegate,) = report.delegates
    return operations(delegate.module.blob_bytes())


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str) -> None:
    torch.manual_seed(0)
    network, inputs, _ = NETWORKS[name]
    found = _found(run_in_runtime(network().eval(), [(inputs(),)], rtol=1e-4, atol=1e-4))
    ours, peer = _TRANSPOSES[name]
    assert found.count("Transpose") == ours
    assert peer is None or ours <= peer[1]
    assert "ConstantPad" not in found


class _Vocoder(nn.Module):
    """A stage of a vocoder whose weights are normalized in each call."""

    def __init__(self, norm: Callable[[nn.Module], nn.Module]) -> None:
        super().__init__()
        self.up = norm(nn.ConvTranspose1d(96, 48, 8, 4, 2))
        self.layers = nn.ModuleList(norm(nn.Conv1d(48, 48, 11, 1, 5 * n, n)) for n in (1, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.up(x)
        for layer in self.layers:
            x = x + layer(nn.functional.leaky_relu(x, 0.1))
        return x.tanh()


class _Standardized(nn.Conv2d):
    """As in BiT and NFNets."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.weight.view(1, self.out_channels, -1)
        weight = nn.functional.batch_norm(rows, None, None, training=True, momentum=0).view_as(self.weight)
        return nn.functional.conv2d(x, weight, self.bias, self.stride, self.padding)


class _Positions(nn.Module):
    """Attention scores with a table of relative positions, as in TinyViT and Swin."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(6, 27))
        line = torch.arange(100)
        self.register_buffer("offsets", (line[:, None] - line).clamp(-13, 13) + 13)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + self.table[:, self.offsets]).softmax(-1)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: _Vocoder(nn.utils.weight_norm), (1, 96, 20)),
        (lambda: _Vocoder(nn.utils.parametrizations.weight_norm), (1, 96, 20)),
        (lambda: _Vocoder(nn.utils.parametrizations.spectral_norm), (1, 96, 20)),
        (lambda: nn.Sequential(_Standardized(3, 64, 3), nn.ReLU(), _Standardized(64, 64, 3)), (1, 3, 12, 12)),
        (_Positions, (2, 6, 100, 100)),
    ],
)
def test_weights_that_are_computed_are_constants(
    make: Callable[[], nn.Module], shape: tuple[int, ...]
) -> None:
    """They have more than 64 KiB, and their parameters are read several times."""
    torch.manual_seed(0)
    report = run_in_runtime(make().eval(), [(torch.randn(shape),)], rtol=1e-4, atol=1e-4)
    assert not {"Square", "SquareRoot", "StaticSlice"} & set(_found(report))


def test_batches_that_vary() -> None:
    torch.manual_seed(0)
    network, inputs, _ = NETWORKS["U-Net that resizes"]
    calls = [(inputs()[:1].repeat(rows, 1, 1, 1),) for rows in (2, 5, 1)]
    report = run_in_runtime(network().eval(), calls, ({0: Dim("batch", min=1, max=8)},), rtol=1e-4, atol=1e-4)
    assert _found(report).count("Transpose") == 2


class _First(nn.Module):
    """Returns the first result of a model of transformers."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> Any:
        return self.model(x).to_tuple()[0]


_STAGES: Final[dict[str, Any]] = {"hidden_sizes": [16, 32, 32, 64], "depths": [1, 1, 1, 1], "num_labels": 10}
_MODELS: Final[dict[str, tuple[dict[str, Any], int]]] = {
    "MobileNetV2": ({"num_labels": 10}, 1),
    "ResNet": ({"embedding_size": 16, **_STAGES}, 1),
    "ConvNext": (_STAGES, 1),
    "Swin": (
        {"image_size": 64, "embed_dim": 16, "depths": [1, 2], "num_heads": [2, 4], "window_size": 4},
        13,
    ),
}
"""Model -> its configuration, and the transposes inside its delegate."""


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("name", _MODELS)
def test_models(name: str, precision: str) -> None:
    import transformers

    torch.manual_seed(0)
    settings, transposes = _MODELS[name]
    config = getattr(transformers, f"{name}Config")(**settings)
    model = _First(getattr(transformers, f"{name}ForImageClassification")(config))
    for each in model.modules():
        if isinstance(each, nn.BatchNorm2d):  # activations keep their size, as after training
            each.momentum = 1.0
    with torch.no_grad():
        model.train()(torch.randn(4, 3, 64, 64))
    image = torch.randn(1, 3, 64, 64).half().float()
    tolerance = 1e-3 if precision == "fp32" else 3e-2
    report = run_in_runtime(model, [(image,)], None, {"precision": precision}, rtol=tolerance, atol=tolerance)
    found = _found(report)
    assert found.count("Transpose") == transposes
    assert not {"ConstantPad", "Clamp"} & {*found}
