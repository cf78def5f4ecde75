# SPDX-License-Identifier: Apache-2.0
"""The peer's XNNPACK programs: our reader reads their blobs, and our executor equals the runtime."""

from __future__ import annotations

import importlib
import logging
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from delegatec.backends import builtin_backends
from delegatec.backends.xnnpack.blob import read_blob
from delegatec.backends.xnnpack.checking.values import TYPE_NAMES
from delegatec.backends.xnnpack.graph import blob_graph
from delegatec.backends.xnnpack.values import tensor_of
from delegatec.delegation import format_blob_graph
from delegatec.program.reader import read_program
from delegatec.verify.interpreter import Interpreter
from tests.oracle.oracle import OracleProgram

_GROUP: Final = 32
# Sums in another order.
_TOLERANCE: Final = 2e-5
# The peer turns on debug output of everything when it is imported.
_LEVEL: Final = logging.getLogger().level


class Images(nn.Module):
    """Convolutions, pools and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.points = nn.Conv2d(8, 12, 1)
        self.last = nn.Linear(12, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Computes logits of [1, 3, 16, 16] images."""
        x = F.relu(self.first(x))
        x = F.relu(self.depthwise(x)) + x
        x = F.max_pool2d(self.points(x), 2, 2)
        return self.last(x.mean((2, 3)))


class Functions(nn.Module):
    """Functions, moves and products."""

    def __init__(self) -> None:
        super().__init__()
        self.slopes = nn.PReLU(4, 0.3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Takes [2, 4, 8, 8] and [2, 4, 8, 8]."""
        z = torch.cat([x.sigmoid() * y, F.gelu(x) - y.exp(), F.hardswish(x).abs().sqrt()], 1)
        z = F.interpolate(z, scale_factor=2.0, mode="bilinear")
        z = F.pad(self.slopes(z[:, :4]), (1, 2, 0, 1)).clamp(-1, 2)
        return torch.bmm(z[:, 0], z[:, 1].permute(0, 2, 1)[:, :, :17]).softmax(-1)


class Layers(nn.Module):
    """Two layers of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 96)
        self.last = nn.Linear(96, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Takes rows of 64 values."""
        return self.last(torch.tanh(self.first(x)))


def peer(name: str) -> Any:
    """Returns a module of the peer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = importlib.import_module(f"executorch.{name}")
    logging.getLogger().setLevel(_LEVEL)
    return module


def lowered(
    module: nn.Module, args: tuple[Any, ...], dynamic_shapes: Any = None, *, is_dynamic: bool = False
) -> bytes:
    """Returns the peer's program of a module."""
    partition = peer("backends.xnnpack.partition.xnnpack_partitioner")
    kind = partition.XnnpackDynamicallyQuantizedPartitioner if is_dynamic else partition.XnnpackPartitioner
    exported = torch.export.export(module, args, dynamic_shapes=dynamic_shapes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        edge = peer("exir").to_edge_transform_and_lower(
            exported,
            partitioner=[kind()],
            compile_config=peer("backends.xnnpack.utils.configs").get_xnnpack_edge_compile_config(),
        )
        return bytes(edge.to_executorch().buffer)


def quantized(module: nn.Module, args: tuple[Any, ...], **config: Any) -> nn.Module:
    """Quantizes a module by the peer's quantizer and PT2E."""
    quantizer = peer("backends.xnnpack.quantizer.xnnpack_quantizer")
    pt2e = importlib.import_module("torchao.quantization.pt2e.quantize_pt2e")
    chosen = quantizer.XNNPACKQuantizer().set_global(quantizer.get_symmetric_quantization_config(**config))
    prepared = pt2e.prepare_pt2e(torch.export.export(module, args).module(), chosen)
    prepared(*args)
    found: nn.Module = pt2e.convert_pt2e(prepared)
    return found


def compare(pte: bytes, calls: list[tuple[Any, ...]], folder: Path) -> Counter[str]:
    """Runs the peer's program in the stock runtime and in ours, compares, and counts types in blobs."""
    path = folder / "peer.pte"
    path.write_bytes(pte)
    program = read_program(path)
    method = program.method("forward")
    ours = Interpreter(method, builtin_backends(), named_data=program.named_bytes())
    theirs = OracleProgram(pte)
    for call in calls:
        for result, wanted in zip(ours.run(call), theirs.run(call), strict=True):
            assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
            largest = float(wanted.abs().max())
            torch.testing.assert_close(result, wanted, rtol=0, atol=_TOLERANCE * largest)
            assert largest > 1e-3
    types: Counter[str] = Counter()
    for delegate in method.delegates:
        blob = read_blob(delegate.blob)
        assert "return" in format_blob_graph(blob_graph(blob))
        types.update(TYPE_NAMES[tensor_of(value).dataType] for value in blob.graph.values)
    return types


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def test_functions(tmp_path: Path) -> None:
    args = (torch.randn(2, 4, 8, 8), torch.randn(2, 4, 8, 8))
    assert compare(lowered(Functions().eval(), args), [args], tmp_path)["FLOAT32"] > 20


def test_sizes_that_vary(tmp_path: Path) -> None:
    args = (torch.randn(6, 64),)
    pte = lowered(Layers().eval(), args, ({0: torch.export.Dim("rows", min=1, max=9)},))
    compare(pte, [args, (torch.randn(9, 64),), (torch.randn(1, 64),), args], tmp_path)


def test_static_int8(tmp_path: Path) -> None:
    image = torch.randn(1, 3, 16, 16)
    module = quantized(Images().eval(), (image,), is_per_channel=True)
    types = compare(lowered(module, (image,)), [(image,), (-image,)], tmp_path)
    assert types["CHANNEL_INT8"] >= 4 and types["INT8"] >= 10


def test_four_bits_in_groups(tmp_path: Path) -> None:
    quantization = importlib.import_module("torchao.quantization")
    granularity = importlib.import_module("torchao.quantization.granularity")
    module = Layers().eval()
    config = quantization.Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=granularity.PerGroup(_GROUP)
    )
    quantization.quantize_(module, config)
    args = (torch.randn(6, 64),)
    types = compare(lowered(module, args, is_dynamic=True), [args], tmp_path)
    assert types["GROUP_INT4"] == 2 and types["DYNAMIC_INT8"] == 2
