# SPDX-License-Identifier: Apache-2.0
"""Quantized calls: their operations, and the bytes of weights. `tests/oracle` runs such programs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

import pytest
import torch
from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import DataType
from torch import Tensor
from torch.nn import functional as f

from delegatec.backends.common.testing import Compiled, X, floats
from delegatec.backends.xnnpack.quantized.testing import GroupedLinear, Layer, dq, q, qdq, rows
from delegatec.backends.xnnpack.testing import compile_module
from delegatec.backends.xnnpack.testing.grid import graph_of, operations, rejected, run_case
from delegatec.backends.xnnpack.testing.operators.case import Case
from delegatec.backends.xnnpack.values import tensor_of


def check(module: torch.nn.Module, args: tuple[Tensor, ...], operations: str = "") -> Compiled:
    """Returns a module as one delegate with the operations."""
    return run_case(Case(module, args, operations))


def values(module: torch.nn.Module, *inputs: Tensor) -> list[schema.TensorT]:
    """Returns the tensors of the only delegate's blob."""
    blob = check(module, inputs).blobs()[0]
    return [tensor_of(value) for value in graph_of(blob).values or []]


def test_levels_are_converted_where_numbers_are_needed() -> None:
    check(Layer(lambda _, x: qdq(x.neg())), (X,), "Negate Convert Convert")
    check(Layer(lambda _, x: qdq(x).exp().sigmoid()), (X,), "Convert Convert Exp Sigmoid")
    check(Layer(lambda _, x: qdq(qdq(x).exp(), 0.5)), (X,), "Convert Exp Convert")
    check(Layer(lambda _, x: q(dq(x).exp(), 0.5)), (torch.zeros(3, dtype=torch.int8),), "Exp")


def test_conversions_alone_are_delegates() -> None:
    check(Layer(lambda _, x: q(x)), (X,), "Convert")
    check(Layer(lambda _, x: dq(x)), (torch.zeros(3, dtype=torch.int8),), "Convert")


def test_weights_that_others_read_stay_outside() -> None:
    layer = Layer(lambda own, x: f.embedding(x, dq(own.values)))
    layer.register_buffer("values", torch.ones(5, 4, dtype=torch.int8))
    compiled = compile_module(layer, (torch.tensor([1, 2]),))
    assert compiled.delegates == [] and len(compiled.left) == 2


def test_a_value_is_converted_once_for_all_readers() -> None:
    layer = Layer(lambda _, x: qdq(qdq(x).exp(), 0.5) + qdq(x).softmax(-1) * qdq(x))
    compiled = check(layer, (X,))
    assert operations(compiled.blobs()[0]).count("Convert") == 3


def test_scales_beyond_the_kernels_are_computed_in_floating_point() -> None:
    # a result scale of 2^-12 of the operands' scales, and products beyond 2^8
    check(Layer(lambda _, x: qdq(qdq(x) + qdq(x), 80.0)), (X,), "Convert Convert Add Convert Convert")
    check(
        Layer(lambda _, x: qdq(qdq(x, 8.0) * qdq(x, 8.0), 0.2)),
        (X,),
        "Convert Convert Multiply Convert Convert",
    )


@pytest.mark.parametrize(
    ("bits", "group", "kind", "size"),
    [
        (8, 0, DataType.CHANNEL_INT8, 20 * 64),
        (4, 0, DataType.CHANNEL_INT4, 20 * 32),
        (4, 32, DataType.GROUP_INT4, 20 * 32),
    ],
)
def test_weights_are_stored_packed(bits: int, group: int, kind: int, size: int) -> None:
    layer = Layer(lambda own, x: f.linear(rows(x), own.weight(), own.bias), (20, 64), bits, group)
    blob = check(layer, (floats(5, 64),), "Convert FullyConnected").blobs()[0]
    graph = graph_of(blob)
    tensors = [tensor_of(value) for value in graph.values]
    (weight,) = (each for each in tensors if each.dataType == kind)
    assert list(weight.dims) == [20, 64]
    assert graph.constants[weight.constantId].size == size


@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_weights_in_groups_are_stored_packed(has_zeros: bool, precision: str) -> None:
    layer = GroupedLinear((80, 64), 32, has_zeros=has_zeros)
    case = Case(layer, (floats(5, 64),), half=0.01)
    (blob,) = run_case(case, precision=precision).blobs()
    products = ["Slice", "FullyConnected"] * 2
    found = [each for each in operations(blob) if each != "Convert"]
    assert found == (["FullyConnected"] * 2 + [*products[:2], "Add"] * 2 if has_zeros else [*products, "Add"])
    weights = [
        each for each in map(tensor_of, graph_of(blob).values) if each.dataType == DataType.CHANNEL_INT4
    ]
    assert [list(each.dims) for each in weights][-2:] == [[80, 32]] * 2


def test_int4_is_not_for_layers_between_quantized_values() -> None:
    layer = Layer(lambda own, x: qdq(f.linear(qdq(x), own.weight())), (20, 64), 4)
    assert DataType.CHANNEL_INT8 in [each.dataType for each in values(layer, floats(5, 64))]


def test_what_is_left() -> None:
    integers = torch.ops.quantized_decomposed.quantize_per_tensor
    found = rejected(Layer(lambda _, x: integers(x, 0.1, 0, -99, 99, torch.int16).float()), (X,))
    assert found and "another dtype" in str(found)
    dequantize = torch.ops.quantized_decomposed.dequantize_per_tensor
    found = rejected(
        Layer(lambda _, x: dequantize(x, 0.1, 0, -99, 99, torch.int16).exp()), (X.to(torch.int16),)
    )
    assert found and "another dtype" in str(found)
    found = rejected(Layer(lambda _, x: rows(x).relu()), (X,))
    assert {rule for _, rule, _ in found} >= {"dynamic-quantization"}


def test_other_floats_are_left() -> None:
    dequantize = torch.ops.quantized_decomposed.dequantize_per_tensor
    x = torch.zeros(3, dtype=torch.int8)
    found = rejected(
        Layer(lambda _, x: dequantize(x, 0.1, 0, -128, 127, torch.int8, out_dtype=torch.bfloat16)), (x,)
    )
    assert found and "bfloat16" in str(found)
    found = rejected(Layer(lambda _, x: q(x)), (X.bfloat16(),))
    assert found and "bfloat16" in str(found)


def test_clamps_are_limits_of_operations_of_one_scale() -> None:
    def layer(own: Layer, x: Tensor, step: float) -> Tensor:
        return qdq(qdq(f.linear(qdq(x), own.weight()), 0.3, 0).clamp(-1.5, 1.5), step, 0)

    x = floats(5, 64)
    for step in (0.3, 0.1):
        # the quantization before the clamp disappears, so that results differ by its rounding
        compiled = compile_module(Layer(functools.partial(layer, step=step), (20, 64)), (x,))
        assert operations(compiled.blobs()[0]) == ["Convert", "FullyConnected", "Convert"]
    module = Layer(lambda _, x: qdq(f.max_pool2d(qdq(x), 2).clamp(-0.5, 0.5), 0.01))
    found = operations(compile_module(module, (floats(1, 8, 8, 8),)).blobs()[0])
    assert [each for each in found if each != "Transpose"] == ["Convert", "MaxPooling", "Clamp", "Convert"]


def test_levels_with_several_scales_are_left() -> None:
    quantized = torch.zeros(3, dtype=torch.int8)
    found = rejected(Layer(lambda _, x: dq(x).exp() + dq(x, 0.5).exp()), (quantized,))
    assert "different scales" in str(found)
    found = rejected(Layer(lambda _, x: dq(q(x.exp()), 0.5).neg()), (X,))
    assert "different scales" in str(found)


def test_a_zero_point_that_is_no_level_is_named() -> None:
    found = rejected(Layer(lambda _, x: qdq(x.exp(), 0.5, 200)), (X,))
    assert "scale 0.5, zero point 200" in str(found)


CHAINS: Final[dict[str, tuple[Callable[[Tensor], Tensor], str]]] = {
    "a number": (lambda x: qdq(qdq(x) + 1.25), "Convert Add Convert"),
    "a constant": (lambda x: qdq(qdq(x) * torch.tensor([1.25])), "Convert Multiply Convert"),
    "the second operand": (
        lambda x: qdq(torch.maximum(torch.tensor(0.25), qdq(x))),
        "Convert Maximum Convert",
    ),
    "two scales": (lambda x: qdq(qdq(x) + qdq(x, 0.04, -7)), "Convert Convert Add Convert"),
    "softmax": (lambda x: qdq(qdq(x).softmax(-1), 1 / 256), "Convert Convert Softmax Convert Convert"),
    "slopes": (
        lambda x: qdq(f.prelu(qdq(x), torch.tensor([0.1, 0.2, 0.3]))),
        "Convert Convert Transpose Prelu Transpose Convert Convert",
    ),
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_operands_are_levels_in_both_precisions(name: str, precision: str) -> None:
    function, expected = CHAINS[name]
    case = Case(Layer(lambda _, x: function(x)), (X,), half=0.1)
    (blob,) = run_case(case, precision=precision).blobs()
    # float32 inputs and outputs are quantized and dequantized
    assert sorted(operations(blob)) == sorted(expected.split())


@pytest.mark.parametrize(("first", "second"), [(8.0, 0.0625), (9.0, 0.0625), (0.001, 1.0)])
def test_scales_too_far_apart_are_converted_by_floats(first: float, second: float) -> None:
    check(
        Layer(lambda _, x: qdq(qdq(x.neg(), first, 0), second, 0).neg()),
        (X,),
        "Negate Convert Convert Convert Convert Negate",
    )
    check(
        Layer(lambda _, x: qdq(qdq(x.neg(), 4.0, 0), 0.0625, 0).neg()),
        (X,),
        "Negate Convert Convert Convert Negate",
    )


@pytest.mark.parametrize(("slope", "step"), [(0.0, 0.0625), (0.1, 8.0), (-2.0, 4.0)])
def test_slopes_beyond_the_kernel_are_computed_in_floating_point(slope: float, step: float) -> None:
    layer = Layer(lambda _, x: qdq(f.leaky_relu(qdq(x, step), slope)))
    check(layer, (X,), "Convert Convert LeakyRelu Convert Convert")


def test_constants_of_equal_bytes_have_different_scales() -> None:
    """Found in DAB-DETR: a single slope is always the largest quantized value; equal constants are one."""
    own = Layer(lambda own, x: qdq(f.prelu(qdq(f.prelu(qdq(x), dq(own.slope, 0.1))), dq(own.slope, 0.2))))
    own.register_buffer("slope", torch.tensor([7], dtype=torch.int8))
    check(own, (-X,), "Convert Transpose Convert Prelu Convert Convert Prelu Convert Transpose Convert")
    own = Layer(lambda own, x: qdq(qdq(qdq(x) + dq(own.term, 0.1)) * dq(own.term, 0.2)))
    own.register_buffer("term", torch.tensor([7, -3, 20, 5], dtype=torch.int8))
    check(own, (X,), "Convert Add Multiply Convert")


def test_quantized_windows_of_attention_have_a_rank_that_the_runtime_accepts() -> None:
    """Found in ViTMatte: a permutation of 7 dimensions, of windows, projections and heads at once."""

    def attention(own: Layer, x: Tensor) -> Tensor:
        windows = qdq(x).view(1, 2, 2, 2, 2, 8).permute(0, 1, 3, 2, 4, 5).reshape(4, 2, 2, 8)
        projected = qdq(f.linear(windows, own.weight())).reshape(4, 4, 3, 2, 4).permute(2, 0, 3, 1, 4)
        query, key, value = projected.reshape(3, 8, 4, 4).unbind(0)
        scores = qdq(qdq(qdq(query * 0.5) @ key.transpose(-2, -1)).softmax(-1), 1 / 256, -128)
        heads = qdq(scores @ value).view(4, 2, 2, 2, 4).permute(0, 2, 3, 1, 4).reshape(4, 2, 2, 8)
        return heads.view(1, 2, 2, 2, 2, 8).permute(0, 1, 3, 2, 4, 5).reshape(1, 4, 4, 8)

    compiled = compile_module(Layer(attention, (24, 8)), (floats(1, 4, 4, 8),))
    assert compiled.left == [] and len(compiled.delegates) == 1
