# SPDX-License-Identifier: Apache-2.0
"""Large weights are dequantized in parts, to the same bits."""

from __future__ import annotations

import pytest
import torch

from delegatec.edge.quantization.affine import AFFINE, dequantize


@pytest.mark.parametrize("group", [32, 512])
def test_parts_have_the_bits_of_the_whole(group: int) -> None:
    torch.manual_seed(0)
    values = torch.randint(-8, 8, (1027, 512), dtype=torch.int8)
    scale = torch.rand(1027, 512 // group)
    arguments = (values, [1, group], scale, None, torch.int8, -8, 7)
    with torch.no_grad():
        assert torch.equal(AFFINE.dequantize_affine(*arguments), dequantize(*arguments))
