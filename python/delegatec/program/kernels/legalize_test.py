# SPDX-License-Identifier: Apache-2.0
"""Calls that kernels reject or compute wrongly are rewritten; others do not change."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

from delegatec.edge import KERNEL_COMPOSITES
from delegatec.edge.passes.sink_constant_calls import sink_constant_calls
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import assert_computes, called, edge
from delegatec.program.kernels.check import check_kernels
from delegatec.program.kernels.legalize import legalize

aten = torch.ops.aten
SPECIAL = torch.tensor([0.0, 1, -1, 3, float("nan"), float("inf"), 2, 0, 0, -0.0])
X = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))


def _legal(function: Any, *inputs: Any, **options: Any) -> EdgeProgram:
    program = edge(function, *inputs, passes=(), preserve=KERNEL_COMPOSITES, **options)
    legalize(program)
    return program


def _of_batch(x: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
    return torch.nn.functional.batch_norm(x, None, None, weight, training=True)


CASES: dict[str, tuple[Callable[..., Any], torch.Tensor, str | None]] = {
    "sum_of_int64": (lambda x: x.sum(1), torch.tensor([[16777217, 1, 1]]), "_to_copy"),
    "cat_of_two_dtypes": (lambda x: torch.cat([x, x.to(torch.int32)]), X, "_to_copy"),
    "scaled_sum": (lambda x: torch.add(x[:1, :1], x, alpha=2), X, "mul"),
    "sign_of_nan": (torch.sign, torch.tensor([float("nan"), -2.0, 0.0]), "masked_fill"),
    "cumsum_of_no_dimension": (lambda x: x.cumsum(0), torch.tensor(2), None),
    "linear_of_a_vector": (lambda x: torch.nn.functional.linear(x, x[None]), X[0], "unsqueeze"),
    "negative_pad": (lambda x: torch.nn.functional.pad(x, (-1, 2, 1, -2), value=3.0), X, "slice"),
    "pad_with_a_number_beyond_the_dtype": (
        lambda x: (torch.nn.functional.pad(x, (-1, 0), value=-1), aten.constant_pad_nd(x, [1, 0], -1)),
        torch.tensor([1, 8], dtype=torch.uint8),
        None,
    ),
    "narrow": (lambda x: aten.narrow_copy.default(x, -1, -2, 2), X, "slice"),
    "roll_of_all": (lambda x: x.roll(5), X, "view"),
    "wrapped_number": (lambda x: torch.clamp(x, -1, 2), torch.tensor([0, 7], dtype=torch.uint8), None),
    "fractional_bounds_of_integers": (
        lambda x: torch.nn.functional.hardtanh(x, -0.5, 1.5),
        torch.tensor([0, 1, 2, 9], dtype=torch.uint8),
        "clamp",
    ),
    "wrapped_alpha": (
        lambda x: (torch.add(x, x.flip(0), alpha=-1), torch.sub(x, x.flip(0), alpha=-3)),
        torch.tensor([1, 200], dtype=torch.uint8),
        None,
    ),
    "no_elements": (lambda x: x.amax(0), torch.zeros(2, 0, 3), "full"),
    "integers_rounded": (torch.ceil, torch.tensor([2**62 + 1]), None),
    "log_softmax_of_float64": (lambda x: x.log_softmax(1), X.double(), "log"),
    "log_softmax_of_one_nan": (lambda x: x.log_softmax(0), torch.tensor(float("nan")), "sub"),
    "moments_of_one_element": (lambda x: torch.var_mean(x, dim=1), X[:, :1], "mean"),
    "sum_of_one_float64": (lambda x: x[:, :1].sum(1), X.double() / 3, "mean"),
    "whole_quotients": (lambda x: x // 0.1, torch.linspace(-6, 6, 400), "round"),
    "whole_quotients_of_float64": (lambda x: x // -0.3, torch.linspace(-6, 6, 400).double(), "round"),
    "quotients_by_a_number_of_16_bits": (lambda x: x // 0.1, torch.linspace(-4, 4, 81).half(), "div"),
    "remainder_of_16_bits": (lambda x: (x % 0.1, torch.fmod(x, 0.1)), torch.linspace(-4, 4, 81).half(), None),
    "comparison_with_a_number_of_16_bits": (
        lambda x: (x == 0.1, x >= 0.7, x < 0.3, x != 1 / 3),
        torch.tensor([0.1, 0.7, 0.3, 1 / 3], dtype=torch.bfloat16),
        None,
    ),
    "variance_of_few_elements": (lambda x: (x.var(1, correction=4), x.std(0, unbiased=True)), X[:1], "div"),
    "moments_of_few_elements": (lambda x: torch.var_mean(x, 1, correction=9), X, "div"),
    "moments_of_a_scalar": (lambda x: torch.var_mean(x, 0, correction=0), torch.tensor(2.0), "mean"),
    "floor_of_a_quotient": (lambda x: x // x.flip(0), SPECIAL, "where"),
    "floor_of_a_division": (lambda x: torch.div(x, x.flip(0), rounding_mode="floor"), SPECIAL, "where"),
    "floor_of_a_division_by_0": (lambda x: torch.div(x, 0.0, rounding_mode="floor"), SPECIAL, "div"),
    "floor_of_a_quotient_by_0": (lambda x: x // 0.0, SPECIAL, "div"),
    "scale_that_is_rounded_later": (lambda x: (x * (x.amax(1) / 127.5)[:, None]).round(), X, "_to_copy"),
    "group_norm_of_float64": (
        lambda x: torch.nn.functional.group_norm(x, 2),
        X.double().view(1, 4, 3),
        "rsqrt",
    ),
    "layer_norm_of_float64": (
        lambda x: torch.native_layer_norm(x, [2, 2], x[0], None, 1e-5),
        X.double().view(3, 2, 2),
        "rsqrt",
    ),
    "layer_norm": (lambda x: torch.native_layer_norm(x, [2, 2], None, x[0], 1e-5), X.view(3, 2, 2), "sub"),
    "layer_norm_of_centered_columns": (
        lambda x: torch.layer_norm(x - x.mean(0, True), [4]),
        X,
        "native_layer_norm",
    ),
    "group_norm": (lambda x: torch.group_norm(x, 2, x[0, :, 0]), X.view(1, 4, 3), "sub"),
    "batch_norm": (lambda x: _of_batch(x, x[0, :, 0]), X.view(2, 3, 2), "expand"),
    "batch_norm_of_rows": (_of_batch, X, "sub"),
}


@pytest.mark.parametrize("name", CASES)
def test_rewrites_compute_the_same(name: str) -> None:
    function, x, made = CASES[name]
    program = _legal(function, x)
    assert_computes(program, function(x), x)
    assert check_kernels(program) == []
    names = [each._opname for each in called(program)]
    assert made is None or made in names


@pytest.mark.parametrize("name", CASES)
def test_legal_calls_do_not_change(name: str) -> None:
    function, x, _ = CASES[name]
    program = _legal(function, x)
    before = called(program)
    legalize(program)
    assert called(program) == before


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_of_float16_are_computed_in_float32(dtype: torch.dtype) -> None:
    def function(x: torch.Tensor) -> Any:
        return torch.nn.functional.layer_norm(x, [4]), x.cumsum(0), torch.var_mean(x, 1)

    x = X.to(dtype)
    program = _legal(function, x)
    for node in program.graph.nodes:
        if node.op == "call_function" and node.target in (
            aten.native_layer_norm.default,
            aten.cumsum.default,
        ):
            assert node.args[0].meta["val"].dtype is torch.float32
    assert_computes(program, function(x), x, atol=1e-2, rtol=1e-2)
    results: Any = program.output_node().args[0]
    assert {result.meta["val"].dtype for result in results} == {dtype}


def test_float32_and_exact_operators_do_not_change() -> None:
    def function(x: torch.Tensor) -> Any:
        return x.softmax(1), x + 1, torch.cat([x, x]), x.sum(1), x @ x.T

    program = edge(function, X)
    before = called(program)
    legalize(program)
    assert called(program) == before


def test_norms_of_long_rows_and_of_centered_rows_do_not_change() -> None:
    def function(x: torch.Tensor) -> Any:
        return torch.layer_norm(x.repeat(1, 64), [256]), torch.layer_norm(x - x.mean(1, True), [4])

    program = edge(function, X)
    before = called(program)
    legalize(program)
    assert called(program) == before


@pytest.mark.parametrize("exponent", [-1, -0.5, 0.5, 2, 2.0, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_small_powers_are_the_products_of_eager_mode(exponent: float, dtype: torch.dtype) -> None:
    x = torch.tensor([0.0, -0.0, 1.5, -2.7, 1e-30, 3e20, math.inf, -math.inf, math.nan], dtype=dtype)
    program = _legal(lambda x: x**exponent, x)
    assert aten.pow.Tensor_Scalar not in called(program)
    assert_computes(program, x**exponent, x, atol=0, rtol=1e-15 if abs(exponent) == 0.5 else 0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_squares_of_halves_are_rounded_once(dtype: torch.dtype) -> None:
    x = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    program = _legal(lambda x: x**2, x)
    assert called(program) == [aten.mul.Tensor]
    assert_computes(program, x**2, x, atol=0, rtol=0)
    assert aten.pow.Tensor_Scalar in called(_legal(lambda x: x**3, x))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 13])
def test_powers_of_integers_are_exact(exponent: int) -> None:
    for x in (torch.tensor([2**53 + 1, -(2**40) - 3, 7]), torch.tensor([3, 200], dtype=torch.uint8)):
        program = _legal(lambda x: x**exponent, x)
        assert aten.pow.Tensor_Scalar not in called(program)
        assert_computes(program, x**exponent, x)


@pytest.mark.parametrize("exponent", [1.5, 4, -2, -3])
def test_other_powers_stay(exponent: float) -> None:
    assert called(_legal(lambda x: x**exponent, X)) == [aten.pow.Tensor_Scalar]
    assert aten.pow.Tensor_Scalar in called(_legal(lambda x: x**0.5, torch.tensor([1, 2])))


def test_rewrites_have_the_line_and_the_handle_of_the_call() -> None:
    program = edge(lambda x: torch.cat([x, x.to(torch.float64)]), X, passes=())
    (cat,) = (node for node in program.graph.nodes if node.target is aten.cat.default)
    legalize(program)
    made = [node for node in program.graph.nodes if node.meta["debug_handle"] == cat.meta["debug_handle"]]
    assert len(made) == 2 and all(node.meta["source"] == cat.meta["source"] for node in made)


def test_sizes_are_computed_by_primitives_of_the_runtime() -> None:
    n = torch.export.Dim("n", min=2, max=9)
    program = edge(lambda x: (x.shape[0] ** 2, x + 1), X, dynamic_shapes=({0: n},))
    legalize(program)
    assert operator.pow not in {node.target for node in program.graph.nodes}
    assert check_kernels(program) == []


def test_too_many_dimensions_are_rejected() -> None:
    (problem, *_) = check_kernels(edge(lambda x: x.view([1] * 17) + 1, torch.ones(1)))
    assert problem.code == "DC215" and "17 dimensions" in problem.message and "16" in problem.expected
    assert problem.node == "view" and problem.location is not None


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1, 2)])
def test_instance_norms_of_dynamic_sizes_are_rewritten(dims: tuple[int, ...]) -> None:
    x = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))
    dynamic = {dim: Dim(f"size{dim}", min=2, max=9) for dim in dims}
    program = _legal(torch.nn.functional.instance_norm, x, dynamic_shapes=(dynamic,))
    assert_computes(program, torch.nn.functional.instance_norm(x), x, atol=1e-5)


def test_norms_of_16_bits_keep_dynamic_channels() -> None:
    def norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.instance_norm(x, weight=weight)

    x, weight = torch.randn(1, 4, 5, generator=torch.Generator().manual_seed(0)).half(), torch.ones(4)
    program = _legal(norm, x, weight, dynamic_shapes=({1: Dim.AUTO}, {0: Dim.AUTO}))
    fewer = (x[:, :3], weight[:3])
    assert_computes(program, norm(*fewer), *fewer, atol=2e-3)


def test_variances_of_dynamic_sizes_below_the_correction_are_infinite() -> None:
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    program = _legal(lambda x: x.var(0, correction=2), x, dynamic_shapes=({0: Dim("rows", min=1, max=9)},))
    assert [target for target in called(program) if target is aten.var.correction] == []
    for rows in (2, 3, 5):
        assert_computes(program, x[:rows].var(0, correction=2), x[:rows])


def test_constants_in_dynamic_memory_are_moved() -> None:
    """torch does not tell the bytes of ones like a slice, although the sizes of the slice are static."""

    def mean(x: torch.Tensor) -> torch.Tensor:
        return torch.scatter_reduce(x, 1, torch.tensor([[0, 2, 1]]), x, "mean", include_self=False)

    x = torch.tensor([[1.0, 2.0, 3.0, 4.0]]).bfloat16()
    program = edge(mean, x, dynamic_shapes=({1: Dim("length", min=3, max=9)},))
    legalize(program)
    sink_constant_calls(program)
    assert_computes(program, torch.tensor([[1.0, 3.0, 2.0, 4.0]]).bfloat16(), x)
