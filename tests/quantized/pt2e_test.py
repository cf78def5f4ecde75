# SPDX-License-Identifier: Apache-2.0
"""Graphs of PT2E, which torchao prepares, calibrates and converts, from torch.export to files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torchao.quantization.pt2e import move_exported_model_to_eval
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e

from delegatec import Model
from delegatec.diagnostics import DelegatecError
from delegatec.edge import to_edge
from delegatec.edge.printer import print_program
from delegatec.edge.quantization.operators import DEQUANTIZE_BLOCKS
from delegatec.frontend.export import export
from tests.quantized.checks import check
from tests.quantized.small_quantizer import SmallQuantizer

quantized = torch.ops.quantized_decomposed
WHOLE: Final = frozenset(
    {
        torch.ops.aten.linear.default,
        quantized.quantize_per_tensor.default,
        quantized.dequantize_per_tensor.default,
        quantized.quantize_per_tensor.tensor,
        quantized.dequantize_per_tensor.tensor,
        DEQUANTIZE_BLOCKS,
        quantized.choose_qparams.tensor,
    }
)


class Pictures(nn.Module):
    """Convolutions with batch norms, a sum, a concatenation and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.wide, self.wide_norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.deep, self.deep_norm = nn.Conv2d(8, 8, 3, groups=8, padding=1, bias=False), nn.BatchNorm2d(8)
        self.head = nn.Linear(16, 10)
        for norm in (self.wide_norm, self.deep_norm):
            norm.running_mean = torch.randn(8) / 8
            norm.running_var = torch.rand(8) + 0.5

    def forward(self, x: Tensor) -> Tensor:
        wide = F.relu(self.wide_norm(self.wide(x)))
        deep = F.hardtanh(self.deep_norm(self.deep(wide)), 0, 6)
        result: Tensor = self.head(torch.cat([wide + deep, deep], 1).mean((2, 3)))
        return result


class Layers(nn.Module):
    """Two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.wide, self.narrow = nn.Linear(16, 32), nn.Linear(32, 8)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.narrow(F.gelu(self.wide(x)))
        return result


IMAGE: Final = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))
ROWS: Final = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))


def _converted(
    module: nn.Module, x: Tensor, quantizer: Any, training: bool = False, shapes: Any = None
) -> nn.Module:
    graph = torch.export.export(module.train(training), (x,), dynamic_shapes=shapes).module()
    prepared = (prepare_qat_pt2e if training else prepare_pt2e)(graph, quantizer)
    generator = torch.Generator().manual_seed(2)
    for _ in range(4):
        prepared(torch.randn(x.shape, generator=generator))
    if training:
        move_exported_model_to_eval(prepared)
    converted: nn.Module = convert_pt2e(prepared)
    return converted


def _xnnpack(training: bool = False, **options: Any) -> Any:
    config = get_symmetric_quantization_config(is_qat=training, **options)
    return XNNPACKQuantizer().set_global(config)


@pytest.mark.parametrize("maker", [SmallQuantizer, None])
@pytest.mark.parametrize("per_channel", [False, True])
def test_static(maker: Any, per_channel: bool, tmp_path: Path) -> None:
    """Found: equal but for means halfway between quantized values; a step is 0.9% of the largest result."""
    quantizer = maker(per_channel) if maker else _xnnpack(is_per_channel=per_channel)
    module = _converted(Pictures(), IMAGE, quantizer)
    check(module, (IMAGE,), tmp_path, {"portable": 1.5e-2, "mlx": 1.5e-2, "mps": 1.5e-2, "vulkan": 1.5e-2})


# torchao traces its patterns for each: half a minute.
@pytest.mark.sampled(2)
@pytest.mark.parametrize("maker", [None, SmallQuantizer])
def test_training(maker: Any, tmp_path: Path) -> None:
    quantizer = maker(training=True) if maker else _xnnpack(True, is_per_channel=True)
    module = _converted(Pictures(), IMAGE, quantizer, training=True)
    check(module, (IMAGE,), tmp_path, {"portable": 1.5e-2, "mlx": 1.5e-2, "mps": 1.5e-2, "vulkan": 1.5e-2})


@pytest.mark.parametrize("maker", [SmallQuantizer, None])
@pytest.mark.parametrize("per_channel", [False, True])
def test_dynamic(maker: Any, per_channel: bool, tmp_path: Path) -> None:
    quantizer = maker(per_channel, True) if maker else _xnnpack(is_per_channel=per_channel, is_dynamic=True)
    check(
        _converted(Layers(), ROWS, quantizer),
        (ROWS,),
        tmp_path,
        {"portable": 2e-6, "mlx": 2e-6, "mps": 2e-6, "vulkan": 2e-6},
    )


def test_dynamic_shapes(tmp_path: Path) -> None:
    shapes = ({0: torch.export.Dim("rows", min=1, max=64)},)
    for name, quantizer in (("static", SmallQuantizer()), ("dynamic", SmallQuantizer(dynamic=True))):
        module = _converted(Layers(), ROWS, quantizer, shapes=shapes)
        (folder := tmp_path / name).mkdir()
        others = tuple((torch.randn(rows, 16),) for rows in (2, 64))
        tolerance = {"portable": 1.5e-2 if name == "static" else 2e-6}
        check(module, (ROWS,), folder, tolerance, others, dynamic_shapes=shapes)


class Integers(nn.Module):
    """What the reference representation has for a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.ones(16, 8, dtype=torch.int8))

    def forward(self, x: Tensor) -> Tensor:
        operator, values = torch.ops.aten.mm.default, x.to(torch.int8)
        result: Tensor = torch.ops.higher_order.out_dtype(operator, torch.int32, values, self.weight)
        return result


def test_products_of_integers_are_refused() -> None:
    with pytest.raises(DelegatecError, match=r"DC119[\s\S]*without use_reference_representation"):
        export(Model(Integers(), (ROWS,)))


@pytest.mark.skipif(not os.environ.get("EVERY_CASE"), reason="torchao traces 28 patterns: half a minute")
def test_the_reference_representation_is_refused() -> None:
    graph = torch.export.export(Layers().eval(), (ROWS,)).module()
    prepared = prepare_pt2e(graph, _xnnpack(is_per_channel=False))
    prepared(ROWS)
    module = convert_pt2e(prepared, use_reference_representation=True)
    with pytest.raises(DelegatecError, match=r"DC119[\s\S]*without use_reference_representation"):
        export(Model(module, (ROWS,)))


def _calls(module: nn.Module, x: Tensor) -> list[str]:
    (program,) = export(Model(module, (x,))).values()
    text = print_program(to_edge(program, preserve=WHOLE))
    calls = [line.partition(" = ")[2].partition("(")[0] for line in text.splitlines() if " = " in line]
    return [call.split(".")[1] for call in calls if "." in call]


PAIR: Final = ["quantize_per_tensor", "dequantize_per_tensor"]
WEIGHT: Final = "dequantize_affine"


def test_patterns_are_whole() -> None:
    """Each operator is between pairs of calls, whose scales a sum and a concatenation share."""
    calls = _calls(_converted(Pictures(), IMAGE, SmallQuantizer()), IMAGE)
    # weights first; an activation is dequantized once per user
    found = [call for call in calls if call != WEIGHT]
    shared = ["quantize_per_tensor", "dequantize_per_tensor", "dequantize_per_tensor"]
    assert len(calls) - len(found) == 3
    assert found == [
        *(*PAIR, "convolution", "relu", *shared, "convolution", "hardtanh"),
        *(*shared, "add", *PAIR, "cat", *PAIR, "mean", *PAIR, "linear", *PAIR),
    ]


def test_dynamic_patterns_are_whole() -> None:
    calls = _calls(_converted(Layers(), ROWS, SmallQuantizer(dynamic=True)), ROWS)
    found = [call for call in calls if call != WEIGHT]
    assert found == ["choose_qparams", *PAIR, "linear", "gelu", "choose_qparams", *PAIR, "linear"]
