# SPDX-License-Identifier: Apache-2.0
"""Quantised weights and activations: what lies in the blob, and what it computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from delegatec_schemas.mps_graph import DataType, DequantizePerChannelGroupT
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.mps import MPS
from delegatec.backends.mps.blob import read_blob
from delegatec.backends.mps.constants import Int4Bytes
from delegatec.backends.mps.operators.grid import PRECISIONS, floats, rejected, run_case
from delegatec.backends.mps.testing import Compiled, compile_module, eager, operations
from delegatec.delegation.parts import join

quantized = torch.ops.quantized_decomposed
WHOLE: Final = sorted(MPS.preserved_operators(), key=str)
INT4: Final = (-8, 7, torch.int8)
INT8: Final = (-128, 127, torch.int8)
UINT8: Final = (0, 255, torch.uint8)


def levels(rows: int, columns: int, low: int = -8, high: int = 7) -> Tensor:
    """int8 of a range, in any order."""
    generator = torch.Generator().manual_seed(rows * columns)
    return torch.randint(low, high + 1, (rows, columns), generator=generator).to(torch.int8)


def scales(*shape: int) -> Tensor:
    return floats(*shape, seed=7).abs() / 8 + 0.01


class Weight(nn.Module):
    """A linear layer whose weight is quantised in groups of columns.

    Args:
        weight: levels.
        scale: of groups.
        zeros: of groups.
        group: columns of a group.
        result: dtype.
    """

    weight: Tensor
    scale: Tensor

    def __init__(
        self,
        weight: Tensor,
        scale: Tensor,
        zeros: Tensor | None,
        group: int,
        result: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        self.register_buffer("zeros", zeros)
        self.group, self.result = group, result

    def forward(self, x: Tensor) -> Tensor:
        weight = quantized.dequantize_per_channel_group(
            self.weight, self.scale, self.zeros, *INT4, self.group, self.result
        )
        return F.linear(x, weight)


def one_delegate(module: nn.Module, x: Tensor, tolerance: float, **options: str) -> Compiled:
    """Checks that a module becomes one delegate, which computes what eager does."""
    compiled = compile_module(module, (x,), preserve=WHOLE, **options)
    left = [(r.operator, r.rule, r.message) for r in compiled.report.rejections]
    assert (len(compiled.delegates), left) == (1, [])
    for result, wanted in zip(compiled(x), eager(module, (x,)), strict=True):
        assert result.dtype == wanted.dtype and wanted.abs().max() > 0.1
        torch.testing.assert_close(result, wanted, rtol=tolerance, atol=tolerance)
    return compiled


ZEROS: Final = torch.tensor([[0, 1], [-2, 3]] * 8, dtype=torch.int32)
GROUPED: Final[dict[str, Callable[[], Weight]]] = {
    "without zero points": lambda: Weight(levels(16, 64), scales(16, 2), None, 32),
    "with zero points": lambda: Weight(levels(16, 64), scales(16, 2), ZEROS, 32),
    "with float zero points": lambda: Weight(levels(16, 64), scales(16, 2), ZEROS / 4, 32),
    "of eight bits": lambda: Weight(levels(16, 64, -128, 127), scales(16, 2), ZEROS, 32),
    "in uneven groups": lambda: Weight(levels(5, 21), scales(5, 3), None, 7),
    "in one group": lambda: Weight(levels(5, 21), scales(5, 1), None, 256),
}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", GROUPED)
def test_weights_in_groups_are_int8(name: str, precision: str) -> None:
    module = GROUPED[name]()
    x = floats(3, module.weight.shape[1])
    compiled = one_delegate(module, x, {"fp32": 2e-5, "fp16": 2e-2}[precision], precision=precision)
    graph = read_blob(memoryview(compiled.blobs()[0])).graph
    stored = [graph.mpsValues[id] for id in graph.constantIds]
    assert [v.datatype for v in stored if v.dims == [*module.weight.shape]] == [DataType.INT8]
    assert "DequantizePerChannelGroup" not in operations(compiled.blobs()[0])


def test_weights_of_halves_stay_such() -> None:
    module = Weight(levels(16, 64), scales(16, 2).half(), ZEROS, 32, torch.float16)
    one_delegate(module, floats(3, 64).half(), 2e-3)


def test_weights_that_are_computed() -> None:
    scale = scales(4, 2)
    run_case(
        lambda w: quantized.dequantize_per_channel_group(w, scale, None, *INT4, 8, torch.float32),
        (levels(4, 16),),
        "Cast View View Mul View",
        preserve=WHOLE,
    )


def test_scales_of_float64_are_left() -> None:
    scale = scales(4, 2).double()
    ((name, rule, message),) = rejected(
        lambda w: quantized.dequantize_per_channel_group(w + w, scale, None, *INT4, 8, torch.float32),
        (levels(4, 16),),
    )[:1]
    assert (rule, "float64" in message) == ("dtype", True), (name, message)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_packed(precision: str) -> None:
    """Two numbers in a byte, in the order that the peer's compiler gets from torch on a Mac."""
    module = Weight(levels(16, 64), scales(16, 2), torch.zeros(16, 2, dtype=torch.int32), 32)
    compiled = one_delegate(
        module, floats(3, 64), {"fp32": 3e-3, "fp16": 2e-2}[precision], precision=precision, int4="packed"
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
    """Numbers of an even place into the high half, then both halves of every byte changed over."""
    wide = weight.to(torch.int32)
    first = ((wide[:, ::2] & 0x0F) << 4) | (wide[:, 1::2] & 0x0F)
    return bytes(((byte & 0x0F) << 4) | (byte >> 4) for byte in first.flatten().tolist())


def test_any_range_of_packed_bytes() -> None:
    weight = levels(8, 32)
    whole = as_the_peer_packs(weight)
    packed = Int4Bytes(weight)
    assert len(packed) == len(whole) == 128 and join([packed]) == whole
    for start, end in ((0, 1), (3, 3), (5, 17), (120, 200)):
        assert bytes(packed[start:end]) == whole[start:end]


UNPACKED: Final[dict[str, Callable[[], Weight]]] = {
    "with zero points": GROUPED["with zero points"],
    "of eight bits": GROUPED["of eight bits"],
    "in other groups": lambda: Weight(levels(16, 64), scales(16, 4), None, 16),
    "of other rows": lambda: Weight(levels(12, 64), scales(12, 2), None, 32),
    "with scales below float16": lambda: Weight(levels(16, 64), scales(16, 2) * 1e-5, None, 32),
    "with scales beyond float16": lambda: Weight(levels(16, 64), scales(16, 2) * 1e6, None, 32),
}


@pytest.mark.parametrize("name", UNPACKED)
def test_what_the_runtime_would_get_wrong_is_not_packed(name: str) -> None:
    module = UNPACKED[name]()
    blobs = [
        compile_module(module, (floats(3, 64),), preserve=WHOLE, int4=int4).blobs()
        for int4 in ("packed", "int8")
    ]
    assert blobs[0] == blobs[1]


def test_a_weight_of_several_layers_is_packed_once() -> None:
    class Twice(Weight):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(super().forward(x).relu() + 1.0)

    module = Twice(levels(64, 64), scales(64, 2), None, 32)
    compiled = one_delegate(module, floats(3, 64), 1e-2, int4="packed")
    graph = read_blob(memoryview(compiled.blobs()[0])).graph
    assert [v.datatype for v in graph.mpsValues].count(DataType.INT4) == 1


def _per_channel(x: Tensor, weight: Tensor, scale: Tensor, zeros: Tensor | None) -> Tensor:
    return F.linear(x, quantized.dequantize_per_channel(weight, scale, zeros, 0, *INT8))


def _tokens(x: Tensor, choose: Callable[..., Any]) -> Tensor:
    scale, zeros = choose(x, torch.int8)
    q = quantized.quantize_per_token(x, scale, zeros, *INT8)
    result: Tensor = quantized.dequantize_per_token(q, scale, zeros, *INT8, torch.float32)
    return result


class Int8(nn.Module):
    """A linear layer with an int8 weight, behind one of the ways to quantise activations."""

    weight: Tensor
    scale: Tensor
    zeros: Tensor

    def __init__(self, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.activation = activation
        self.register_buffer("weight", levels(48, 64, -128, 127))
        self.register_buffer("scale", scales(48))
        self.register_buffer("zeros", torch.arange(48) - 24)

    def forward(self, x: Tensor) -> Tensor:
        return _per_channel(self.activation(x), self.weight, self.scale, self.zeros)


def _static(x: Tensor, low: int, high: int, dtype: torch.dtype) -> Tensor:
    zero = (low + high) // 2
    q = quantized.quantize_per_tensor(x, 1 / 128, zero, low, high, dtype)
    result: Tensor = quantized.dequantize_per_tensor(q, 1 / 128, zero, low, high, dtype)
    return result


def _dynamic(x: Tensor) -> Tensor:
    scale, zero = quantized.choose_qparams(x, -128, 127, 1e-5, torch.int8)
    q = quantized.quantize_per_tensor(x, scale, zero, *INT8)
    result: Tensor = quantized.dequantize_per_tensor(q, scale, zero, *INT8)
    return result


ACTIVATIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "not quantised": lambda x: x,
    "static int8": lambda x: _static(x, *INT8),
    "static uint8": lambda x: _static(x, *UINT8),
    "dynamic": _dynamic,
    "of tokens": lambda x: _tokens(x, quantized.choose_qparams_per_token_asymmetric),
    "of tokens, symmetric": lambda x: _tokens(x, quantized.choose_qparams_per_token),
}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_int8_weights_and_activations_are_one_delegate(name: str, precision: str) -> None:
    """With fp16 a level of an activation can be the next one, which is 1/128 of it here."""
    module = Int8(ACTIVATIONS[name])
    compiled = one_delegate(
        module, floats(5, 64), {"fp32": 1e-4, "fp16": 0.5}[precision], precision=precision
    )
    graph = read_blob(memoryview(compiled.blobs()[0])).graph
    stored = [v.datatype for id in graph.constantIds if list((v := graph.mpsValues[id]).dims) == [48, 64]]
    assert stored == [DataType.INT8]


def test_eight_bits_of_tokens_and_four_of_weights() -> None:
    """8da4w: the activation is quantised as the program says, which the peer leaves out."""

    class Linear(Weight):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(_tokens(x, quantized.choose_qparams_per_token_asymmetric))

    module = Linear(levels(32, 64), scales(32, 1), torch.zeros(32, 1, dtype=torch.int32), 64)
    x = floats(1, 3, 64)
    one_delegate(module, x, 2e-5)
    compiled = one_delegate(module, x, 3e-3, int4="packed")
    assert {"Round", "DequantizePerChannelGroup"} <= set(operations(compiled.blobs()[0]))
    (result,), exact = compiled(x), Weight.forward(module, x)
    assert (result - exact).abs().max() > 0.005
