# SPDX-License-Identifier: Apache-2.0
"""Every rule of every table: the emitted calls have the same results, and the operator is gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._ops import OpOverload

from delegatec.edge.arguments import bind
from delegatec.edge.legalize.rule import merge
from delegatec.edge.legalize.rules import RULES
from delegatec.edge.testing import assert_computes, call_program, called

aten = torch.ops.aten


def _noise(*sizes: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


X = _noise(2, 3, 4)
MATRIX = _noise(3, 4)
IMAGE = _noise(2, 4, 6, 8)
VOLUME = _noise(2, 2, 5, 4, 6)
FLAGS = torch.tensor([True, False, True])
INTS = torch.arange(-6, 6).view(3, 4)


def _recurrent(
    gates: int, states: int, *, layers: int = 1, both_ways: bool = False, biases: bool = True
) -> Any:
    """Arguments of a recurrent operator with input [3, 2, 4] and hidden size 5."""
    ways = 2 if both_ways else 1
    weights = []
    for layer in range(layers):
        for way in range(ways):
            width = 4 if layer == 0 else 5 * ways
            shapes = [(gates * 5, width), (gates * 5, 5)] + [(gates * 5,)] * 2 * biases
            weights += [_noise(*shape, seed=10 * layer + way + 3 * i) * 0.3 for i, shape in enumerate(shapes)]
    start = [_noise(layers * ways, 2, 5, seed=7 + state) for state in range(states)]
    hx = start if states == 2 else start[0]
    return (_noise(3, 2, 4), hx, weights, biases, layers, 0.0, False, both_ways, False)


def _cell(gates: int, states: int, *, biases: bool = True) -> Any:
    """Arguments of one time step with input [2, 4] and hidden size 5."""
    shapes = [(gates * 5, 4), (gates * 5, 5)] + [(gates * 5,)] * 2 * biases
    weights = [_noise(*shape, seed=3 * i) * 0.3 for i, shape in enumerate(shapes)]
    start = [_noise(2, 5, seed=7 + state) for state in range(states)]
    return (_noise(2, 4), start if states == 2 else start[0], *weights)


# operator -> calls of it: positional arguments, and keyword arguments if the last one is a dict
CASES: dict[OpOverload, list[tuple[Any, ...]]] = {
    # attention: attention_test.py has the rest
    aten.scaled_dot_product_attention.default: [(_noise(2, 3, 4, 8), _noise(2, 3, 5, 8), _noise(2, 3, 5, 6))],
    # copies
    aten.alias_copy.default: [(X,)],
    aten.as_strided_copy.default: [(X, [2, 2], [3, 1], 5)],
    aten.detach_copy.default: [(X,)],
    aten.diagonal_copy.default: [(X, 1, 0, 2)],
    aten.expand_copy.default: [(X[:, :1], [-1, 3, 4])],
    aten.narrow_copy.default: [(X, -1, -2, 2), (X, 1, 1, 2)],
    aten.permute_copy.default: [(X, [2, 0, 1])],
    aten.select_copy.int: [(X, -1, 2)],
    aten.slice_copy.Tensor: [(X, 1, 0, 3, 2)],
    aten.split_copy.Tensor: [(X, 2, 1)],
    aten.split_with_sizes_copy.default: [(X, [1, 3], -1)],
    aten.squeeze_copy.default: [(X[:, :1],)],
    aten.squeeze_copy.dim: [(X[:, :1], 1)],
    aten.squeeze_copy.dims: [(X[:1, :1], [0, 1])],
    aten.t_copy.default: [(MATRIX,)],
    aten.transpose_copy.int: [(X, 0, -1)],
    aten.unbind_copy.int: [(X, 1)],
    aten.unfold_copy.default: [(X, 1, 2, 1), (torch.tensor(1.0), 0, 1, 1)],
    aten.unsqueeze_copy.default: [(X, 1)],
    aten.view_copy.default: [(X, [4, 6])],
    # convolution
    aten.conv1d.default: [(X, _noise(5, 3, 2)), (X, _noise(3, 1, 2), _noise(3), [2], [1], [1], 3)],
    aten.conv2d.default: [
        (IMAGE, _noise(5, 4, 3, 3), _noise(5), [2, 1], [1, 0], [1, 2]),
        (IMAGE, _noise(8, 1, 3, 3), None, [2], [1], [1], 4),
    ],
    aten.conv3d.default: [(_noise(1, 2, 3, 4, 4), _noise(3, 2, 2, 2, 2), _noise(3), [1], [1])],
    aten.conv_transpose1d.default: [(X, _noise(3, 5, 2), _noise(5), [2], [1], [1], 1, [1])],
    aten.conv_transpose2d.input: [(IMAGE, _noise(4, 2, 3, 3), _noise(4), [2, 2], [1, 1], [1, 1], 2)],
    aten.conv_transpose3d.input: [(_noise(1, 2, 3, 3, 3), _noise(2, 3, 2, 2, 2))],
    aten.convolution.default: [
        (VOLUME, _noise(3, 2, 2, 3, 2), _noise(3), [1, 1, 1], [0, 0, 0], [1, 1, 1], False, [0, 0, 0], 1),
        (VOLUME, _noise(4, 1, 2, 2, 2), None, [2, 1, 2], [1, 0, 1], [2, 1, 1], False, [0, 0, 0], 2),
        (VOLUME, _noise(2, 3, 2, 3, 2), _noise(3), [2, 2, 1], [1, 0, 1], [1, 2, 1], True, [1, 0, 0], 1),
        (VOLUME, _noise(2, 2, 3, 2, 2), None, [3, 1, 1], [1, 1, 0], [2, 1, 1], True, [0, 0, 0], 2),
    ],
    # elementwise
    aten.__and__.Tensor: [(FLAGS, ~FLAGS), (INTS, INTS + 3)],
    aten.__or__.Tensor: [(FLAGS, ~FLAGS), (INTS, INTS + 3)],
    aten.__xor__.Tensor: [(FLAGS, FLAGS), (INTS, INTS + 3)],
    aten.__lshift__.Scalar: [(INTS, 2)],
    aten.__lshift__.Tensor: [(INTS, torch.tensor([0, 1, 2, 3]))],
    aten.__rshift__.Scalar: [(INTS, 2)],
    aten.__rshift__.Tensor: [(INTS, torch.tensor([0, 1, 2, 3]))],
    aten.to.dtype: [
        (X, torch.float16),
        (X, torch.int64),
        (X > 0, torch.float32),
        (X, torch.float64, False, True),
    ],
    aten.to.dtype_layout: [(X, {"dtype": torch.float16}), (INTS, {"dtype": torch.uint8})],
    aten.to.device: [(X, "cpu", torch.int32)],
    aten.to.other: [(X, INTS)],
    aten.type_as.default: [(INTS, X)],
    aten.add.Tensor: [(X, 2), (X, 2.5, {"alpha": 3}), (INTS, 2.5), (FLAGS, 1)],
    aten.sub.Tensor: [(X, 2), (INTS, 3, {"alpha": 2}), (1, X)],
    aten.mul.Tensor: [(X, 2), (INTS, 0.5)],
    aten.div.Tensor: [(X, 2), (INTS, 4)],
    aten.div.Tensor_mode: [(X, 0.3, {"rounding_mode": m}) for m in ("floor", "trunc", None)],
    **{
        operator: [(INTS,), (INTS.to(torch.uint8),)]
        for operator in (aten.ceil.default, aten.floor.default, aten.round.default, aten.trunc.default)
    },
    aten.cumsum.default: [(torch.tensor(2.5), 0), (torch.tensor(3, dtype=torch.int8), 0)],
    aten.hardtanh.default: [(INTS, -1.5, 2.5), (INTS, -2, 3)],
    aten.arange.default: [(5,), (5, {"dtype": torch.float32}), (2.5,)],
    aten.threshold.default: [(torch.arange(-3, 3), -1.5, 2.9), (torch.tensor([2**39 + 1, 1]), 2.5, -0.5)],
    aten.linspace.default: [(-1, True, 3), (False, True, 4)],
    aten.arange.start: [(2, 7), (-1.5, 2.0), (0, 3, {"dtype": torch.int32})],
    aten.clamp_min.default: [(X, 0.25), (INTS, 2), (INTS, 1.5)],
    aten.clamp_max.default: [(X, 0.25), (INTS, 0)],
    aten.hardsigmoid.default: [(X * 4,)],
    aten.hardswish.default: [(X * 4,)],
    aten.relu6.default: [(X * 8,)],
    aten.remainder.Scalar: [(INTS, 3), (INTS.to(torch.int8), -3)],
    aten.remainder.Scalar_Tensor: [(7, INTS + 0.5), (-7.5, INTS * 2 + 1), (7, torch.tensor([3, -3, 2, -5]))],
    aten.remainder.Tensor: [(INTS, torch.tensor([3, -3, 2, -5]))],
    aten.addcmul.default: [(INTS, INTS, INTS + 3, {"value": value}) for value in (2.7, -0.5)],
    aten.rrelu.default: [(X,), (X, 0.25, 0.5)],
    aten.lerp.Scalar: [(X, MATRIX, 0.3), (MATRIX, X, -0.7), (X, MATRIX, 0.5)],
    aten.lerp.Tensor: [(X, MATRIX, _noise(3, 1)), (MATRIX, X, torch.tensor(0.5))],
    aten.rsub.Tensor: [(X, MATRIX)],
    aten.silu.default: [(X,)],
    # interpolation
    aten.upsample_linear1d.vec: [
        (X, [7], False, None),
        (X, [7], True, None),
        (X, None, False, [1.5]),
    ],
    aten._upsample_bicubic2d_aa.vec: [
        (IMAGE, [3, 11], False, None),
        (IMAGE.double(), None, True, [0.5, 1.5]),
    ],
    aten.upsample_nearest1d.vec: [(X, [7], None), (X, None, [2.5])],
    # linear
    aten._int_mm.default: [
        (torch.full((18, terms), -128, dtype=torch.int8), torch.full((terms, 8), value, dtype=torch.int8))
        for terms, value in ((8, 3), (1024, -128), (3000, 127))
    ],
    aten.linear.default: [
        *((x, _noise(5, 4), bias) for x in (X, MATRIX, MATRIX[0], X[None]) for bias in (None, _noise(5))),
        (X[:, :1].permute(0, 2, 1).contiguous().permute(0, 2, 1), _noise(5, 4)),
        (X, _noise(4)),
        (X, _noise(4), torch.tensor(0.5)),
    ],
    aten.dot.default: [(MATRIX[0], MATRIX[1])],
    aten.mv.default: [(MATRIX, MATRIX[0])],
    aten.matmul.default: [
        (MATRIX, MATRIX.T.contiguous()),
        (X, _noise(4, 5)),
        (X, _noise(2, 4, 5)),
        (X, _noise(3, 1, 4, 5)),
        (MATRIX, _noise(2, 4, 5)),
    ],
    # normalization
    aten.batch_norm.default: [
        (IMAGE, *affine, _noise(4), _noise(4).abs(), False, 0.1, 1e-5, False)
        for affine in ((_noise(4, seed=1), _noise(4, seed=2)), (None, None))
    ]
    + [(IMAGE, None, None, None, None, True, 0.1, 1e-5, False)],
    aten.instance_norm.default: [
        (x, *affine, None, None, True, 0.1, 1e-5, False)
        for x, affine in ((IMAGE, (_noise(4, seed=1), _noise(4, seed=2))), (X + 9, (None, None)))
    ],
    aten.layer_norm.default: [(X, [4], _noise(4), _noise(4)), (X, [3, 4]), (X, [4], _noise(4), None, 1e-2)],
    aten._native_batch_norm_legit.no_stats: [
        (IMAGE, _noise(4, seed=1), _noise(4, seed=2), True, 0.1, 1e-5),
        (IMAGE + 9, None, None, True, 0.1, 1e-2),
        (MATRIX, _noise(4), None, True, 0.1, 1e-5),
    ],
    aten.native_group_norm.default: [
        (IMAGE, _noise(4, seed=1), _noise(4, seed=2), 2, 4, 48, 2, 1e-5),
        (IMAGE, None, None, 2, 4, 48, 4, 1e-2),
        (X, _noise(3), None, 2, 3, 4, 1, 1e-5),
    ],
    aten.linalg_vector_norm.default: [
        *((X,), (X, 2, [1]), (X, 2.0, [0, -1], True), ((X * 1000).half(), 2, [1]), (X.bfloat16(),)),
    ],
    aten.log_softmax.int: [(X, 1), (X.half(), -1, torch.float32)],
    aten.softmax.int: [(X, 0), (X, -1, torch.float64)],
    aten.var.correction: [(X,), (X, [1], {"correction": 0}), (X + 99, [0, -1], {"keepdim": True})],
    aten.rms_norm.default: [(X, [4]), (X, [3, 4], MATRIX), (X * 1e-3, [4], _noise(4), 0.1)],
    aten.std.correction: [(X,), (X, [-1, 0]), (X, [1])],
    aten.std.dim: [(X, [1]), (X, [0, 2], False, True)],
    aten.var.dim: [(X, [1]), (X, [0, 2], False, True)],
    aten.var_mean.correction: [(X, [1]), (X, [0, -1], {"correction": 2, "keepdim": True}), (X, None)],
    # pooling
    aten.adaptive_avg_pool2d.default: [(IMAGE, size) for size in ([1, 1], [3, 2], [6, 8])],
    aten.avg_pool2d.default: [
        *((IMAGE, [9, 30], [], [0, 0], True), (IMAGE[0], [7, 8], [2, 1], [0, 0], True, False)),
        (IMAGE.half(), [100, 8], [100, 8], [0, 0], True),
    ],
    aten.max_pool2d.default: [
        *((IMAGE, [2, 2]), (IMAGE, [3, 3], [2, 1], [1, 1], [1, 2], True), (IMAGE[0], 2)),
        *((IMAGE, [9, 30], [], [0, 0], [1, 1], True), (IMAGE, [3, 9], [3, 9], [1, 0], [1, 1], True)),
    ],
    # recurrent
    aten.gru_cell.default: [_cell(3, 1), _cell(3, 1, biases=False)],
    aten.lstm_cell.default: [_cell(4, 2), _cell(4, 2, biases=False)],
    aten.gru.input: [_recurrent(3, 1), _recurrent(3, 1, layers=2, both_ways=True, biases=False)],
    aten.lstm.input: [_recurrent(4, 2), _recurrent(4, 2, layers=2, both_ways=True, biases=False)],
    aten.rnn_relu.input: [_recurrent(1, 1)],
    aten.rnn_tanh.input: [_recurrent(1, 1, layers=2, both_ways=True)],
    # shape
    aten._reshape_alias.default: [(X, [6, 4], [4, 1])],
    aten._unsafe_view.default: [(X, [6, 4])],
    aten.flatten.using_ints: [(X,), (X, 1), (torch.tensor(1.0),)],
    aten.reshape.default: [(X, [-1]), (X, [4, -1, 2])],
    aten.reshape_as.default: [(X, _noise(4, 6))],
    aten.unflatten.int: [(X, 2, [2, -1])],
    aten.view_as.default: [(X, _noise(4, 6))],
    aten.mT.default: [(MATRIX,), (X,)],
    aten.t.default: [(MATRIX,), (MATRIX[0],)],
    aten.transpose.int: [(X, 0, -1), (X, -2, 1), (torch.tensor(1.0), 0, -1)],
    aten.squeeze.default: [(X[:, :1],), (X,), (X[:1, :1, :1],)],
    aten.squeeze.dim: [(X[:, :1], 1), (X[:, :1], -2), (X, 0), (torch.tensor(1.0), 0)],
    aten.chunk.default: [(X, 2, 2), (X, 2, 1), (X, 5, -1)],
    aten.split.Tensor: [(X, 2, 1), (X, 3, -1)],
    aten.split.sizes: [(X, [1, 2], 1), (X, [0, 4], -1)],
    aten.split_with_sizes.default: [(X, [1, 2], 1)],
    aten.copy.default: [(X, MATRIX), (X, INTS), (MATRIX, MATRIX + 1)],
    aten.fill.Scalar: [(X, 2), (INTS, 3)],
    aten.fill.Tensor: [(X, torch.tensor(2.5)), (INTS, torch.tensor(2.5)), (X, torch.tensor(3))],
    aten.expand_as.default: [(MATRIX, X), (MATRIX[:, :1], MATRIX)],
    aten.pad.default: [
        (X, [1, 2]),
        (X, [0, 1, -1, 0], "constant", 2.5),
        (X, [1, 2], "circular"),
        (IMAGE, [3, 0, 1, 2], "circular"),
        (IMAGE, [-1, -1, 0, 1], "circular"),
    ],
    aten.pixel_unshuffle.default: [(IMAGE, 2), (IMAGE[0], 2), (IMAGE[None], 2)],
    aten.roll.default: [(X, [1], [-1]), (X, [-1, 5], [0, 2]), (X, [1, 1], [2, 2]), (X, [4], [2])],
    aten.select_scatter.default: [(X, MATRIX, 0, 1), (X, X[:, :, 0] + 1, -1, -2)],
    aten.stack.default: [([MATRIX, MATRIX + 1], dim) for dim in (0, 1, -1)],
    aten.unfold.default: [(torch.tensor(1.0), 0, 1, 1)],
    aten.unbind.int: [(X,), (X, -1)],
    aten.where.default: [(FLAGS,)],
    aten.full_like.default: [(X, 2), (X, True, {"dtype": torch.bool}), (X, float("-inf"))],
    aten.new_full.default: [(X, [2], 2.5), (INTS, [], 2)],
    aten.ones.default: [([2, 3],), ([2], {"dtype": torch.bool})],
    aten.ones_like.default: [(X,), (X, {"dtype": torch.int32})],
    aten.new_ones.default: [(INTS, [2])],
    aten.new_zeros.default: [(INTS, [2], {"dtype": torch.float16})],
    aten.zeros.default: [([2, 3],), ([], {"dtype": torch.int64})],
    aten.zeros_like.default: [(X,), (FLAGS,)],
}

# Uninitialized memory is not compared: only that the operator is gone.
UNDEFINED: dict[OpOverload, list[tuple[Any, ...]]] = {
    aten.empty.memory_format: [([2, 3],)],
    aten.empty_like.default: [(X,)],
    aten.empty_permuted.default: [([2, 3], [1, 0])],
    aten.empty_strided.default: [([2, 3], [3, 1])],
    aten.new_empty.default: [(X, [2])],
    aten.new_empty_strided.default: [(X, [2], [1])],
}

# Rules that only turn one form of an operator into another form of it.
REWRITTEN: dict[OpOverload, list[tuple[Any, ...]]] = {
    aten.expand.default: [(MATRIX, [2, -1, -1]), (X[:, :1], [-1, 5, 4])],
    aten.view.default: [(X, [-1, 2]), (X, [24])],
}

# Calls to which the rule of their operator does not apply.
DECLINED: list[tuple[Any, ...]] = [
    (aten.add.Tensor, X, MATRIX),
    (aten.ceil.default, X),
    (aten.cumsum.default, X, 1),
    (aten.hardtanh.default, X, -0.5, 1.5),
    (aten.div.Tensor_mode, X, MATRIX, {"rounding_mode": "floor"}),
    (aten.remainder.Scalar, X, 0.7),
    (aten.remainder.Tensor, INTS.to(torch.uint8), torch.tensor([3], dtype=torch.uint8)),
    (aten.lerp.Scalar, X.half(), X.half(), 0.3),
    (aten.rms_norm.default, X.half(), [4]),
    (aten.rsub.Tensor, X, MATRIX, {"alpha": 2}),
    (aten.matmul.default, X, MATRIX[0]),
    (aten.matmul.default, MATRIX[0], MATRIX.T.contiguous()),
    (aten.conv2d.default, IMAGE[0], _noise(5, 4, 3, 3)),
    (aten.linalg_vector_norm.default, X, 1, [1]),
    (aten.linalg_vector_norm.default, X, float("inf")),
    (aten.adaptive_avg_pool2d.default, IMAGE, [4, 3]),
    (aten.avg_pool2d.default, IMAGE, [6, 8]),
    (aten.avg_pool2d.default, IMAGE, [9, 3], [2, 3], [4, 0], True),
    (aten.pad.default, X, [1, 2], "reflect"),
    (aten.pad.default, X, [-1, 2], "circular"),
    (aten.roll.default, X, [5]),
    (aten.unfold.default, X, 1, 2, 1),
    (aten.var.dim, X[:1], [0]),
    (aten.scaled_dot_product_attention.default, X, X, X, None, 0.0, False),
]


def _calls(cases: dict[OpOverload, list[tuple[Any, ...]]]) -> Iterator[Any]:
    for operator, calls in cases.items():
        for index, call in enumerate(calls):
            yield pytest.param(operator, call, id=f"{operator}-{index}")


def test_every_rule_has_a_case() -> None:
    # symbols_test.py has `item`, whose result is not a tensor; tests/oracle/core_sizes.py has the others
    others = {
        aten.constant_pad_nd.default,
        aten.item.default,
        aten.div.Scalar_mode,
        aten.floor_divide.default,
    }
    assert CASES.keys() | UNDEFINED.keys() | REWRITTEN.keys() | others == RULES.keys()


_DOUBLE = {"atol": 1e-11, "rtol": 1e-11}


@pytest.mark.parametrize(("operator", "call"), _calls(CASES))
def test_decomposition_computes_the_same(operator: OpOverload, call: tuple[Any, ...]) -> None:
    program, expected, tensors = call_program(operator, call)
    # a convolution stays one, over fewer dimensions
    assert operator not in called(program) or operator is aten.convolution.default
    is_double = isinstance(expected, torch.Tensor) and expected.dtype == torch.float64
    assert_computes(program, expected, *tensors, **_DOUBLE if is_double else {"atol": 1e-5})


@pytest.mark.parametrize(("operator", "call"), _calls(UNDEFINED))
def test_undefined_memory_becomes_zeros(operator: OpOverload, call: tuple[Any, ...]) -> None:
    program, expected, tensors = call_program(operator, call)
    assert called(program) == [aten.full.default]
    assert_computes(program, torch.zeros_like(expected), *tensors)


@pytest.mark.parametrize(("operator", "call"), _calls(REWRITTEN))
def test_sizes_are_written_out(operator: OpOverload, call: tuple[Any, ...]) -> None:
    program, expected, tensors = call_program(operator, call)
    (node,) = program.graph.find_nodes(op="call_function", target=operator)
    assert node.args[1] == list(expected.shape)
    assert_computes(program, expected, *tensors)


@pytest.mark.parametrize(
    ("operator", "call", "kernel"),
    [
        (aten.avg_pool2d.default, (IMAGE, [9, 3], [], [0, 0], True), [6, 3]),
        (aten.avg_pool2d.default, (IMAGE, [2, 30], [1, 30], [0, 0], True, False), [2, 8]),
        (aten.avg_pool2d.default, (IMAGE, [9, 30], [], [0, 0], True, True, 5), [6, 8]),
        (aten.avg_pool2d.default, (IMAGE, [9, 3], [2, 3], [4, 0], True), [9, 3]),
        # a window of the image's size is one of several
        (aten.avg_pool2d.default, (IMAGE, [9, 8], [9, 1], [0, 4], True), [6, 8]),
        (aten.max_pool2d.default, (IMAGE, [9, 3], [], [0, 0], [1, 1], True), [6, 3]),
        (aten.max_pool2d.default, (IMAGE, [9, 3], [9, 3], [4, 0], [1, 1], True), [9, 3]),
        (aten.max_pool2d.default, (IMAGE, [4, 3], [9, 3], [0, 0], [2, 1], True), [4, 3]),
    ],
)
def test_a_window_ends_with_the_image(operator: OpOverload, call: tuple[Any, ...], kernel: list[int]) -> None:
    program, expected, tensors = call_program(operator, call)
    pools = (aten.avg_pool2d.default, aten.max_pool2d_with_indices.default)
    (pool,) = [node for node in program.graph.nodes if node.target in pools]
    assert pool.args[1] == kernel
    assert_computes(program, expected, *tensors, atol=1e-5)


@pytest.mark.parametrize("operator", [aten.pad.default, aten.constant_pad_nd.default])
@pytest.mark.parametrize(("value", "padding"), [(-2, 1), (0.5, 1), (True, 1), (0.0, 0), (1e30, 1)])
def test_bools_are_padded_with_bools(operator: OpOverload, value: float, padding: int) -> None:
    """Delegates treat bools as floats."""
    call = (FLAGS, [1, 2], "constant", value) if operator is aten.pad.default else (FLAGS, [1, 2], value)
    program, expected, tensors = call_program(operator, call)
    (node,) = program.graph.find_nodes(op="call_function", target=aten.constant_pad_nd.default)
    assert bind(node)["value"] == padding
    assert_computes(program, expected, *tensors)


@pytest.mark.parametrize("case", DECLINED, ids=lambda case: str(case[0]))
def test_calls_that_a_rule_declines_are_computed(case: tuple[Any, ...]) -> None:
    operator, *call = case
    program, expected, tensors = call_program(operator, tuple(call))
    assert_computes(program, expected, *tensors, atol=1e-5)


def test_two_rules_for_one_operator_are_rejected() -> None:
    with pytest.raises(AssertionError, match="two decompositions"):
        merge({aten.t.default: RULES[aten.t.default]}, {aten.t.default: RULES[aten.t.default]})
