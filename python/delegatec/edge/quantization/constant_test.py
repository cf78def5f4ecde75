# SPDX-License-Identifier: Apache-2.0
"""Quantized constants are read alike, whichever operator dequantizes them."""

from __future__ import annotations

from typing import Final

import pytest
import torch

from delegatec.edge.quantization.constant import QuantizedConstant, quantized_constant
from delegatec.edge.quantization.operators import QUANTIZATIONS
from delegatec.edge.quantization.testing import Constant, in_blocks, per_channel, per_group, per_tensor
from delegatec.edge.testing import edge

CONSTANTS: Final[dict[str, tuple[Constant, tuple[int, ...]]]] = {
    "per tensor": (Constant(per_tensor, (6, 8)), (6, 8)),
    "per row": (Constant(per_channel(0), (6, 8), (6,)), (1, 8)),
    "per column": (Constant(per_channel(-1), (6, 8), (8,)), (6, 1)),
    "per group": (Constant(per_group(4), (6, 8), (6, 2)), (1, 4)),
    "one group": (Constant(per_group(32), (6, 8), (6, 1)), (1, 8)),
    "in blocks": (Constant(in_blocks(2, 4), (6, 8), (3, 2)), (2, 4)),
    "in blocks of uint8": (
        Constant(in_blocks(1, 4, dtype=torch.uint8), (6, 8), (6, 2), dtype=torch.uint8),
        (1, 4),
    ),
    "of an image": (Constant(per_channel(1), (2, 3, 2, 2), (3,)), (2, 1, 2, 2)),
    "without zero points": (Constant(per_channel(0), (6, 8), (6,), has_zeros=False), (1, 8)),
    "converted": (Constant(lambda own: own.values.to(torch.float32), (6, 8)), (6, 8)),
}


def found_in(module: Constant) -> QuantizedConstant:
    x = torch.zeros(module.values.shape)
    program = edge(module, x, preserve=QUANTIZATIONS, passes=())
    (add,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor)
    found = quantized_constant(add.args[1], lambda node: program.constants.get(node.name))
    assert found is not None
    return found


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant(name: str) -> None:
    module, block = CONSTANTS[name]
    found, wanted = found_in(module), module.call(module)
    assert found.block == block and torch.equal(found.dequantized(), wanted)
    assert (found.zero_points is None) == (name in ("without zero points", "converted"))
    assert found.range == tuple(int(end) for end in module.values.aminmax())


@pytest.mark.parametrize("name", CONSTANTS)
def test_forms_of_a_constant_have_the_same_values(name: str) -> None:
    module, _ = CONSTANTS[name]
    found, wanted = found_in(module), module.call(module)
    dims = list(range(wanted.dim()))[::-1]
    assert torch.equal(found.by_element().dequantized(), wanted)
    assert torch.equal(found.permuted(*dims).dequantized(), wanted.permute(dims))
    signed = found.signed()
    assert signed.dtype == torch.int8 and torch.allclose(signed.dequantized().float(), wanted)
    flat = found.by_element().mapped(torch.flatten, (1,))
    assert torch.equal(flat.dequantized(), wanted.flatten())
    if wanted.dim() == 2:
        rows = found.by_row()
        assert rows.block[0] == 1 and torch.equal(rows.dequantized(), wanted)
        parts = list(rows.columns())
        assert len(parts) == rows.groups and all(part.is_per_channel(0) for part in parts)
        assert torch.equal(torch.cat([part.dequantized() for part in parts], 1), wanted)


def test_scales_of_channels() -> None:
    found = found_in(CONSTANTS["in blocks"][0])
    assert not found.is_per_channel(0) and found.channel_scales().shape == (6, 2)
    found = found_in(CONSTANTS["per column"][0])
    assert found.is_per_channel(1) and found.channel_scales(1).shape == (8,) and not found.splits(0)
    assert found_in(CONSTANTS["per tensor"][0]).channel_scales().tolist() == [0.125] * 6


def test_four_bits() -> None:
    module = Constant(per_tensor, (2, 2))
    module.values.copy_(torch.tensor([[-8, 7], [0, 1]]))
    assert found_in(module).is_int4 and not found_in(CONSTANTS["per tensor"][0]).is_int4
    assert found_in(module).shifted(-1).range == (-7, 8)
