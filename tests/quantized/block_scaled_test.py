# SPDX-License-Identifier: Apache-2.0
"""Linear layers that torchao converts to MX formats, from torch.export to TOSA graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torchao.prototype.mx_formats import MXDynamicActivationMXWeightConfig, ScaleCalculationMode
from torchao.quantization import quantize_
from torchao.quantization.quantize_.common import KernelPreference

from delegatec import Model
from delegatec.frontend import archive
from delegatec.frontend.export import export
from delegatec.lowering import lower

_SPECIFICATION = "TOSA-1.1+FP+bf16+mxfp+fp8e4m3+fp8e5m2"
_DTYPES = {
    torch.float8_e4m3fn: 0.01,
    torch.float8_e5m2: 0.01,
    torch.float4_e2m1fn_x2: 0.3,
}
"""dtype -> relative difference to torchao, which chooses other scales for some blocks of four bits."""


def _model(dtype: torch.dtype, **options: Any) -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(256, 160), torch.nn.ReLU(), torch.nn.Linear(160, 7, bias=False)]
    model = torch.nn.Sequential(*layers).to(torch.bfloat16).eval()
    config = MXDynamicActivationMXWeightConfig(
        activation_dtype=dtype, weight_dtype=dtype, kernel_preference=KernelPreference.EMULATED, **options
    )
    quantize_(model, config)
    return model, torch.randn(4, 256, dtype=torch.bfloat16)


@pytest.mark.parametrize("dtype", _DTYPES)
def test_layers_are_delegated(dtype: torch.dtype, tmp_path: Path) -> None:
    model, x = _model(dtype)
    wanted = model(x).float()
    path = str(tmp_path / "model.pt2")
    archive.save(export(Model(model, (x,))), path)
    lowered = lower(archive.load(path).methods, "tosa", {"specification": _SPECIFICATION})
    report = lowered.reports["forward"]
    assert not report.rejections, report.rejections
    (delegate,) = report.delegates
    found = delegate.module.run(x)[0].float()
    assert wanted.abs().max() > 0.1
    assert (found - wanted).norm() <= _DTYPES[dtype] * wanted.norm()


def test_other_scales_of_activations_stay_arithmetic() -> None:
    model, x = _model(torch.float8_e4m3fn, scaling_mode=ScaleCalculationMode.FLOOR)
    program = export(Model(model, (x,)))["forward"]
    targets = {str(node.target) for node in program.graph.nodes}
    assert not any("block_scaled" in each for each in targets)
