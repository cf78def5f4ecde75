# SPDX-License-Identifier: Apache-2.0
"""Each tool of the comparison, on a small network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rivals_models import small
from rivals_tools import TOOLS


@pytest.mark.parametrize("activation", ["int8", "dynamic_int8"])
@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_computes_what_eager_mode_does(name: str, activation: str, tmp_path: Path) -> None:
    tool, network = TOOLS[name], replace(small(), activation=activation)
    original, quantized = tmp_path / f"float{tool.suffix}", tmp_path / f"int8{tool.suffix}"
    tool.convert(network, original)
    tool.quantize(network, original, quantized)
    inputs, threads = network.inputs(0), torch.get_num_threads()
    with torch.no_grad():
        expected = network.module()(*inputs)
    errors = []
    for file in (original, quantized):
        (found,) = tool.load(file)(inputs)
        assert found.shape == expected.shape and found.dtype == torch.float32
        errors.append(float((found - expected).abs().max() / expected.abs().max()))
    # Static int8 of norms over 16 values of two rows is coarse in each tool.
    assert errors[0] < 1e-5 < errors[1] < 0.6
    torch.set_num_threads(threads)
