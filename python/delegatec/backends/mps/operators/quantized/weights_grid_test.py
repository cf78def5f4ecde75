# SPDX-License-Identifier: Apache-2.0
"""Weights quantized in groups: their storage and results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
import torch
from delegatec_schemas.mps_graph import DataType, DequantizePerChannelGroupT
from torch import Tensor

from delegatec.backends.common.testing import floats
from delegatec.backends.mps.blob import read_blob
from delegatec.backends.mps.operators.quantized.testing import (
    INT4,
    PRESERVED,
    Weight,
    one_delegate,
    quantized_values,
    scales,
)
from delegatec.backends.mps.testing import compile_module, operations
from delegatec.backends.mps.testing.grid import PRECISIONS, run_case

quantized = torch.ops.quantized_decomposed

ZEROS: Final = torch.tensor([[0, 1], [-2, 3]] * 8, dtype=torch.int32)
GROUPED: Final[dict[str, Callable[[], Weight]]] = {
    "without zero points": lambda: Weight(quantized_values(16, 64), scales(16, 2), None, 32),
    "with zero points": lambda: Weight(quantized_values(16, 64), scales(16, 2), ZEROS, 32),
    "with float zero points": lambda: Weight(quantized_values(16, 64), scales(16, 2), ZEROS / 4, 32),
    "of eight bits": lambda: Weight(quantized_values(16, 64, -128, 127), scales(16, 2), ZEROS, 32),
    "in uneven groups": lambda: Weight(quantized_values(5, 21), scales(5, 3), None, 7),
    "with small scales": lambda: Weight(quantized_values(16, 64) * 16, scales(16, 2) * 1e-4, ZEROS, 32),
    "in one group": lambda: Weight(quantized_values(5, 21), scales(5, 1), None, 256),
}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", GROUPED)
def test_weights_in_groups_are_int8(name: str, precision: str) -> None:
    module = GROUPED[name]()
    x = floats(3, module.weight.shape[1])
    compiled = one_delegate(module, x, {"fp32": 1e-6, "fp16": 2e-3}[precision], precision=precision)
    graph = read_blob(memoryview(compiled.blobs()[0])).graph
    stored = [graph.mpsValues[id] for id in graph.constantIds]
    assert [v.datatype for v in stored if v.dims == [*module.weight.shape]] == [DataType.INT8]
    assert "DequantizePerChannelGroup" not in operations(compiled.blobs()[0])


def test_float16_weights_stay_float16() -> None:
    module = Weight(quantized_values(16, 64), scales(16, 2).half(), ZEROS, 32, torch.float16)
    one_delegate(module, floats(3, 64).half(), 1e-3)


def test_weights_that_are_computed() -> None:
    scale = scales(4, 2)
    run_case(
        lambda w: quantized.dequantize_per_channel_group(w, scale, None, *INT4, 8, torch.float32),
        (quantized_values(4, 16),),
        "Cast View View Mul View",
        preserve=PRESERVED,
    )


def test_float64_scales_are_float32() -> None:
    scale = scales(4, 2).double()
    run_case(
        lambda w: quantized.dequantize_per_channel_group(w, scale, None, *INT4, 8, torch.float32),
        (quantized_values(4, 16),),
        "View Cast Mul View",
    )


@pytest.mark.parametrize("precision", PRECISIONS)
def test_packed(precision: str) -> None:
    """Two values in a byte, in the order that the peer's compiler gets from torch on a Mac."""
    module = Weight(quantized_values(16, 64), scales(16, 2), torch.zeros(16, 2, dtype=torch.int32), 32)
    compiled = one_delegate(
        module, floats(3, 64), {"fp32": 1e-3, "fp16": 2e-3}[precision], precision=precision, int4="packed"
    )
    blob = read_blob(memoryview(compiled.blobs()[0]))
    (node,) = [
        node.mpsnodeUnion
        for node in blob.graph.mpsNodes
        if isinstance(node.mpsnodeUnion, DequantizePerChannelGroupT)
    ]
    weight, scale, result = (blob.graph.mpsValues[id] for id in (node.input1Id, node.scalesId, node.outputId))
    assert [(v.datatype, list(v.dims)) for v in (weight, scale, result)] == [
        (DataType.INT4, [16, 64]),
        (DataType.FLOAT16, [16, 2]),
        (DataType.FLOAT16, [16, 64]),
    ]
    assert (node.zeroPointsId, node.quantMin, node.quantMax, node.groupSize) == (-1, -8, 7, 32)
    assert bytes(blob.constant(weight)) == as_the_peer_packs(module.weight)
    assert bytes(blob.constant(scale)) == module.scale.half().numpy().tobytes()


def as_the_peer_packs(weight: Tensor) -> bytes:
    """Packs even elements into the high nibble, then swaps the nibbles of every byte."""
    wide = weight.to(torch.int32)
    first = ((wide[:, ::2] & 0x0F) << 4) | (wide[:, 1::2] & 0x0F)
    return bytes(((byte & 0x0F) << 4) | (byte >> 4) for byte in first.flatten().tolist())


UNPACKED: Final[dict[str, Callable[[], Weight]]] = {
    "with zero points": GROUPED["with zero points"],
    "of eight bits": GROUPED["of eight bits"],
    "in other groups": lambda: Weight(quantized_values(16, 64), scales(16, 4), None, 16),
    "of other rows": lambda: Weight(quantized_values(12, 64), scales(12, 2), None, 32),
    "with scales below float16": lambda: Weight(quantized_values(16, 64), scales(16, 2) * 1e-5, None, 32),
    "with scales beyond float16": lambda: Weight(quantized_values(16, 64), scales(16, 2) * 1e6, None, 32),
}


@pytest.mark.parametrize("name", UNPACKED)
def test_inexact_weights_are_not_packed(name: str) -> None:
    module = UNPACKED[name]()
    blobs = [
        compile_module(module, (floats(3, 64),), preserve=PRESERVED, int4=int4).blobs()
        for int4 in ("packed", "int8")
    ]
    assert blobs[0] == blobs[1]


def test_a_weight_of_several_layers_is_packed_once() -> None:
    class Twice(Weight):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(super().forward(x).relu() + 1.0)

    module = Twice(quantized_values(64, 64), scales(64, 2), None, 32)
    compiled = one_delegate(module, floats(3, 64), 2e-3, int4="packed")
    graph = read_blob(memoryview(compiled.blobs()[0])).graph
    assert [v.datatype for v in graph.mpsValues].count(DataType.INT4) == 1
