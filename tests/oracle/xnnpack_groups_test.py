# SPDX-License-Identifier: Apache-2.0
"""Weights with scales of groups of inputs, and float32 activations: values, and the size of programs.

Results are those of eager mode but for the order of sums, in the stock runtime and the reference executor.
"""

from __future__ import annotations

import io
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torchao.core.config import AOBaseConfig
from torchao.quantization import Int8WeightOnlyConfig, IntxWeightOnlyConfig, quantize_
from torchao.quantization.granularity import PerAxis, PerGroup
from torchao.quantization.quant_primitives import MappingType

from delegatec.backends.common.testing import Compiled, check_results, eager
from delegatec.backends.xnnpack.quantized.testing import GroupedLinear
from delegatec.backends.xnnpack.testing import compile_module
from delegatec.backends.xnnpack.testing.grid import graph_of, operations
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.lowering import lower
from delegatec.program import write_program
from tests.oracle.oracle import mapped
from tests.oracle.xnnpack import floats, run_in_runtime

RTOL: Final = 1e-5
ATOL: Final = 5e-5
"""Of results of about 10 to 50."""


def check(module: nn.Module, *calls: tuple[Tensor, ...], dynamic_shapes: Any = None) -> Compiled:
    """Compares the stock runtime and the reference executor with eager mode; the module is one delegate."""
    report = run_in_runtime(module, calls, dynamic_shapes, rtol=RTOL, atol=ATOL)
    assert (len(report.delegates), report.rejections) == (1, [])
    compiled = compile_module(module, calls[0], dynamic_shapes)
    for call in calls:
        wanted = list(eager(module, call))
        check_results(compiled(*call), wanted, [each.dtype for each in wanted], RTOL, ATOL)
    return compiled


@pytest.mark.parametrize(
    ("limits", "dtype"), [((-8, 7), torch.int8), ((-128, 127), torch.int8), ((0, 15), torch.uint8)]
)
@pytest.mark.parametrize("width", [16, 32, 128])
@pytest.mark.parametrize("has_zeros", [False, True])
def test_layers(limits: tuple[int, int], dtype: torch.dtype, width: int, has_zeros: bool) -> None:
    has_bias = (width == 32) != has_zeros
    layer = GroupedLinear((192, 256), width, limits, has_zeros=has_zeros, has_bias=has_bias, dtype=dtype)
    compiled = check(layer, (floats(7, 256),))
    graph = graph_of(compiled.blobs()[0])
    stored = sum(each.size for each in graph.constants)
    scales_and_zeros = layer.scales.numel() * (2 if has_zeros or dtype == torch.uint8 else 1)
    values_per_byte = 2 if limits[1] - limits[0] < 16 else 1
    wanted = layer.values.numel() // values_per_byte + 4 * scales_and_zeros
    # besides, the bias, and the members of groups for their sums
    assert wanted <= stored <= wanted + 4 * 192 + (256 // width) * (256 // 2 + 4)


def test_groups_of_an_odd_number_of_inputs() -> None:
    check(GroupedLinear((256, 99), 33), (floats(3, 99),))


def test_many_groups() -> None:
    layer = GroupedLinear((128, 4096), 32, has_zeros=True)
    found = operations(check(layer, (floats(1, 4096),)).blobs()[0])
    assert found.count("FullyConnected") == 130


def test_rows_of_varying_number() -> None:
    layer = GroupedLinear((96, 128), 32, has_zeros=True)
    shapes = ({0: Dim("batch", min=1, max=4), 1: Dim("rows", min=1, max=9)},)
    calls = [(floats(*shape, 128),) for shape in ((2, 3), (4, 9), (1, 1), (3, 5))]
    check(layer, *calls, dynamic_shapes=shapes)


class Attention(nn.Module):
    """Layers that read one value, and one with a bias that the model computes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = GroupedLinear((96, 128), 32)
        self.second = GroupedLinear((160, 128), 32, has_bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Computes the layers."""
        steps = self.second.scales
        weight = torch.ops.quantized_decomposed.dequantize_per_channel_group(
            self.second.values, steps, None, -8, 7, torch.int8, 32, torch.float32
        )
        second = nn.functional.linear(x, weight, x.sum(0).repeat(2)[:160])
        return torch.cat([self.first(x).relu(), second], 1)


def test_layers_share_the_inputs_of_groups() -> None:
    found = operations(check(Attention(), (floats(5, 128),)).blobs()[0])
    # and one of the bias
    assert (found.count("Slice"), found.count("FullyConnected")) == (5, 8)


def program_bytes(**modules: tuple[nn.Module, tuple[Tensor, ...]]) -> bytes:
    """Returns the program of methods."""
    exported = {name: torch.export.export(module.eval(), x) for name, (module, x) in modules.items()}
    file = io.BytesIO()
    write_program(lower(exported, "xnnpack").emitted, file)
    return file.getvalue()


def test_methods_share_weights() -> None:
    layer = GroupedLinear((512, 512), 64, has_zeros=True)
    x, step = floats(9, 512), floats(1, 512)
    alone = program_bytes(prefill=(layer, (x,)))
    both = program_bytes(prefill=(layer, (x,)), step=(layer, (step,)))
    # 8 groups of 0.5 kB for their operations, of 170 kB
    assert len(both) < len(alone) + 8 * 1024
    program = mapped(both)
    for method, call in (("prefill", x), ("step", step)):
        torch.testing.assert_close(program.run((call,), method)[0], layer(call), rtol=RTOL, atol=ATOL)


SYMMETRIC, ASYMMETRIC = MappingType.SYMMETRIC, MappingType.ASYMMETRIC
TORCHAO: Final[dict[str, tuple[AOBaseConfig, float]]] = {
    "int4 in groups": (IntxWeightOnlyConfig(torch.int4, PerGroup(32), SYMMETRIC), 5.7),
    "int4 in wide groups": (IntxWeightOnlyConfig(torch.int4, PerGroup(128), SYMMETRIC), 7.0),
    "int4 with zero points": (IntxWeightOnlyConfig(torch.int4, PerGroup(32), ASYMMETRIC), 4.6),
    "int4 of channels": (IntxWeightOnlyConfig(torch.int4, PerAxis(0), ASYMMETRIC), 7.5),
    "int8 in groups": (IntxWeightOnlyConfig(torch.int8, PerGroup(64), SYMMETRIC), 3.5),
    "int8 in groups, as a product": (Int8WeightOnlyConfig(granularity=PerGroup(64), version=2), 3.5),
    "int2 in groups": (IntxWeightOnlyConfig(torch.int2, PerGroup(64), SYMMETRIC), 5.7),
}
"""Configurations of torchao, and how many times smaller than in float32 programs are at least."""


@pytest.mark.parametrize("name", TORCHAO)
def test_layers_of_torchao(name: str) -> None:
    config, ratio = TORCHAO[name]

    def build() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512)).eval()

    model, x = build(), (floats(3, 512),)
    quantize_(model, config)
    lowered = lower(export(Model(model, x)), "xnnpack")
    report = lowered.reports["forward"]
    assert (len(report.delegates), report.rejections) == (1, [])
    file = io.BytesIO()
    write_program(lowered.emitted, file)
    (result,) = mapped(file.getvalue()).run(x)
    torch.testing.assert_close(result, model(*x), rtol=RTOL, atol=ATOL)
    before = len(program_bytes(forward=(build(), x)))
    assert before / len(file.getvalue()) > ratio, f"{before / len(file.getvalue()):.2f}"
