# SPDX-License-Identifier: Apache-2.0
"""Each rewrite has the results of the operator in eager mode, by calls that are valid."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx import Node

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.operators import NHWC, resized
from delegatec.edge.channels_last.rewrites import REWRITES
from delegatec.edge.channels_last.rewrites.convolutions import Convolution, convolve
from delegatec.edge.legalize.engine import replace
from delegatec.edge.legalize.rule import Refusal, rewrites
from delegatec.edge.legalize.value import value_of
from delegatec.edge.testing import assert_computes, call_program, edge
from delegatec.edge.verifier import verify

aten = torch.ops.aten
TABLE = rewrites(REWRITES)


def _t(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


X, X1, X3 = _t(2, 6, 9, 11), _t(2, 6, 13), _t(1, 4, 5, 6, 7)
B = _t(8, seed=2)


def _conv(x: torch.Tensor, weight: torch.Tensor, *args: Any, transposed: bool = False, **more: Any) -> Any:
    stride, padding, dilation, groups = args
    spatial = x.dim() - 2
    outputs = weight.shape[1] * groups if transposed else weight.shape[0]
    extra = more.get("extra", [0] * spatial)
    bias = None if more.get("plain") else _t(outputs, seed=3)
    return (x, weight, bias, stride, padding, dilation, transposed, extra, groups)


CONVOLUTIONS = [
    pytest.param(_conv(X, _t(8, 6, 3, 3), [1, 1], [1, 1], [1, 1], 1), id="plain"),
    pytest.param(_conv(X, _t(8, 6, 3, 2), [2, 3], [1, 0], [1, 2], 1, plain=True), id="strides"),
    pytest.param(_conv(X, _t(8, 6, 1, 1), [2, 2], [0, 0], [1, 1], 1), id="last rows unused"),
    pytest.param(_conv(X, _t(8, 6, 2, 2), [4, 4], [1, 1], [1, 1], 1), id="padding unused"),
    pytest.param(_conv(X, _t(12, 1, 3, 3), [1, 2], [1, 1], [1, 1], 6), id="depthwise"),
    pytest.param(_conv(X, _t(8, 3, 3, 3), [1, 1], [1, 1], [1, 1], 2), id="groups"),
    pytest.param(_conv(X1, _t(8, 6, 4), [3], [2], [2], 1), id="1d"),
    pytest.param(_conv(X1, _t(6, 1, 3), [2], [1], [1], 6), id="1d depthwise"),
    pytest.param(_conv(X1, _t(9, 2, 3), [2], [1], [1], 3), id="1d groups"),
    pytest.param(_conv(X3, _t(8, 4, 2, 3, 3), [1, 2, 1], [1, 0, 1], [1, 1, 2], 1), id="3d"),
    pytest.param(_conv(X3, _t(4, 2, 2, 3, 3), [1, 1, 1], [1, 0, 1], [1, 1, 1], 2), id="3d groups"),
    pytest.param(_conv(X, _t(6, 4, 3, 2), [2, 3], [1, 0], [1, 1], 1, transposed=True), id="transposed"),
    pytest.param(
        _conv(X, _t(6, 4, 3, 3), [2, 2], [1, 1], [1, 1], 1, transposed=True, extra=[1, 1]),
        id="output padding",
    ),
    pytest.param(
        _conv(X, _t(6, 4, 2, 2), [1, 2], [3, 2], [1, 1], 1, transposed=True), id="removes more than a kernel"
    ),
    pytest.param(
        _conv(X, _t(6, 4, 3, 3), [2, 2], [1, 1], [1, 1], 2, transposed=True), id="transposed groups"
    ),
    pytest.param(_conv(X1, _t(6, 4, 4), [2], [1], [1], 1, transposed=True), id="1d transposed"),
]


def _rewritten(operator: Any, call: Any, keep: Any = None, tolerance: float = 1e-4) -> list[Node]:
    """Rewrites the only call of a program, and checks its results and the calls."""
    program, wanted, tensors = call_program(operator, call, keep, preserve=[operator])
    (node,) = (each for each in program.graph.nodes if each.target is operator)
    builder = Builder(program)
    (rewrite,) = TABLE[operator]
    result = rewrite(builder.at(node), node)
    assert result is not None and not isinstance(result, Refusal), result
    replace(node, result)
    program.graph.eliminate_dead_code()
    verify(program)
    assert_computes(program, wanted, *tensors, atol=tolerance, rtol=tolerance)
    calls = [each for each in program.graph.nodes if each.op == "call_function"]
    for each in calls:
        _check(each)
    return calls


def _check(node: Node) -> None:
    """Checks that the windows of a call divide the size, and that its metadata is right."""
    if getattr(node.target, "namespace", None) != "delegatec_nhwc":
        return
    bound = bind(node)
    x, result = shape_of(bound["x"]), shape_of(node)
    if node.target is NHWC.resize.default:
        for dim, (offset, border) in enumerate(zip(bound["offset"], bound["border"], strict=True), 1):
            numerator, denominator = bound["scale"][2 * dim - 2 : 2 * dim]
            total = (x[dim] - 1) * numerator - offset + border
            assert total % denominator == 0
            assert resized(x[dim], numerator, denominator, offset, border) == result[dim]
        return
    if node.target is NHWC.conv_transpose2d.default:
        return
    kernel = bound["kernel"] if "kernel" in bound else shape_of(bound["weight"])[1:-1]
    dilation = bound.get("dilation", [1] * len(kernel))
    for dim, stride in enumerate(bound["stride"], 1):
        before, after = bound["padding"][2 * dim - 2 : 2 * dim]
        rest = x[dim] + before + after - (kernel[dim - 1] - 1) * dilation[dim - 1] - 1
        assert rest == (result[dim] - 1) * stride
        if "kernel" in bound:
            assert max(before, after) < kernel[dim - 1]


@pytest.mark.parametrize("call", CONVOLUTIONS)
def test_convolutions(call: Any) -> None:
    calls = _rewritten(aten.convolution.default, call)
    assert any(
        each.target in (NHWC.conv2d.default, NHWC.conv3d.default, NHWC.conv_transpose2d.default)
        for each in calls
    )


@pytest.mark.parametrize(
    "call",
    [
        _conv(X, _t(6, 4, 3, 3), [1, 1], [1, 1], [2, 2], 1, transposed=True),
        _conv(X, _t(6, 1, 3, 3), [2, 2], [1, 1], [1, 1], 6, transposed=True),
        _conv(X3, _t(4, 2, 2, 3, 3), [1, 1, 1], [1, 0, 1], [1, 1, 1], 1, transposed=True),
    ],
    ids=["dilated", "depthwise", "3d"],
)
def test_transposed_convolutions_without_an_operator(call: Any) -> None:
    operator = aten.convolution.default
    program, _, _ = call_program(operator, call, preserve=[operator])
    (node,) = (each for each in program.graph.nodes if each.op == "call_function")
    (rewrite,) = TABLE[aten.convolution.default]
    assert rewrite(Builder(program).at(node), node) is None


def test_weights_are_permuted_at_compile_time() -> None:
    conv = torch.nn.Conv2d(6, 8, 3, groups=2)
    program = edge(conv, X)
    (node,) = (each for each in program.graph.nodes if each.op == "call_function")
    (rewrite,) = TABLE[aten.convolution.default]
    replace(node, rewrite(Builder(program, Facts(program.constants)).at(node), node))
    program.graph.eliminate_dead_code()
    program.erase_unused_placeholders()
    verify(program)
    permuted = [each.args[0] for each in program.graph.nodes if each.target is aten.permute.default]
    assert len(permuted) == 2 and not {each.name for each in permuted} & set(program.constants)
    assert sorted(program.names_in_model().values()) == ["bias", "bias", "weight", "weight"]
    assert_computes(program, conv(X), X)


@pytest.mark.parametrize(
    ("dtype", "result"), [(torch.int8, torch.int32), (torch.int16, torch.int64)], ids=str
)
def test_integers_with_zero_points(dtype: torch.dtype, result: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-128, 128, (1, 4, 5, 6), dtype=dtype, generator=generator)
    weight = torch.randint(-127, 128, (3, 4, 3, 3), dtype=torch.int8, generator=generator)
    program, _, _ = call_program(aten.bitwise_and.Tensor, (x, x))
    (node,) = (each for each in program.graph.nodes if each.op == "call_function")
    builder = Builder(program).at(node)
    constant = builder.constant(weight)
    call = Convolution([2, 2], [1, 1], [1, 1], False, [0, 0], 1, x_zero=5, weight_zero=-2)
    made = convolve(value_of(builder, node.args[0]), value_of(builder, constant), None, call)
    assert made is not None and made.dtype == result
    node.replace_all_uses_with(made.node)
    program.graph.erase_node(node)
    verify(program)
    exact = torch.nn.functional.conv2d(x.double() - 5, weight.double() + 2, None, (2, 2), (1, 1))
    assert_computes(program, exact.to(result), x, x)


POOLS = [
    (X, [3, 3], [2, 2], [1, 1]),
    (X, [3, 2], [1, 3]),
    (X[0], [2, 2], [2, 2]),
    (X, [3, 3], [2, 2], [1, 1], {"ceil_mode": True}),
    (X, [2, 2], [2, 2], [0, 0], {"ceil_mode": True}),
]


@pytest.mark.parametrize("call", POOLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32], ids=str)
def test_max_pools(call: Any, dtype: torch.dtype) -> None:
    x, *others = call
    _rewritten(aten.max_pool2d_with_indices.default, ((x * 10).to(dtype), *others), [0])


@pytest.mark.parametrize("ceil", [False, True])
def test_dilated_max_pools(ceil: bool) -> None:
    call = (X, [2, 3], [2, 1], [1, 1], [3, 2], ceil)
    calls = _rewritten(aten.max_pool2d_with_indices.default, call, [0])
    assert aten.maximum.default in [each.target for each in calls]


def test_indices_of_maxima() -> None:
    program, _, _ = call_program(aten.max_pool2d_with_indices.default, POOLS[0])
    node = next(each for each in program.graph.nodes if each.op == "call_function")
    (rewrite,) = TABLE[node.target]
    refusal = rewrite(Builder(program).at(node), node)
    assert isinstance(refusal, Refusal) and "result 1 is used" in refusal.message


@pytest.mark.parametrize("call", POOLS)
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("divisor", [None, 7])
def test_average_pools(call: Any, counts: bool, divisor: int | None) -> None:
    options = {**(call[-1] if isinstance(call[-1], dict) else {})}
    positional = call[:-1] if options else call
    options.update(count_include_pad=counts, divisor_override=divisor)
    _rewritten(aten.avg_pool2d.default, (*positional, options))


@pytest.mark.parametrize("sizes", [[3, 11], [4, 4], [7, 2], [1, 5]])
def test_adaptive_pools(sizes: list[int]) -> None:
    _rewritten(aten._adaptive_avg_pool2d.default, (X, sizes))
    _rewritten(aten.adaptive_max_pool2d.default, (X, sizes), [0])


RESIZED = [
    pytest.param(X, [18, 22], None, id="2x"),
    pytest.param(X, [18, 33], None, id="2x3"),
    pytest.param(X, [7, 8], None, id="down"),
    pytest.param(X, [13, 16], [1.5, 1.5], id="1.5x"),
    pytest.param(X, [12, 30], [1.37, 2.75], id="other factors"),
]


@pytest.mark.parametrize(("x", "sizes", "factors"), RESIZED)
def test_resizing(x: torch.Tensor, sizes: list[int], factors: list[float] | None) -> None:
    scales: Any = factors or [None, None]
    for packet in (aten.upsample_nearest2d, aten._upsample_nearest_exact2d):
        calls = _rewritten(packet.default, (x, sizes, *scales), tolerance=0)
        assert NHWC.resize.default in [each.target for each in calls]
    _rewritten(aten.upsample_bilinear2d.default, (x, sizes, False, *scales))
    _rewritten(aten.upsample_bilinear2d.default, (x, sizes, True, *scales))
    given = (None, factors) if factors else (sizes, None)
    _rewritten(aten.upsample_nearest2d.vec, (x, *given), tolerance=0)
    _rewritten(aten._upsample_nearest_exact2d.vec, (x, *given), tolerance=0)
    _rewritten(aten.upsample_bilinear2d.vec, (x, given[0], False, given[1]))


@pytest.mark.parametrize("outputs", [26, 20, 5])
def test_resizing_in_one_dimension(outputs: int) -> None:
    for packet in (aten.upsample_nearest1d, aten._upsample_nearest_exact1d):
        _rewritten(packet.default, (X1, [outputs]), tolerance=0)
        _rewritten(packet.vec, (X1, [outputs], None), tolerance=0)
    for align in (False, True):
        _rewritten(aten.upsample_linear1d.default, (X1, [outputs], align))
        _rewritten(aten.upsample_linear1d.vec, (X1, [outputs], align, None))


@pytest.mark.parametrize("shape", [(1, 8, 3, 5), (2, 12, 4, 4), (3, 2, 4, 3, 2)])
def test_pixel_shuffle(shape: tuple[int, ...]) -> None:
    calls = _rewritten(aten.pixel_shuffle.default, (torch.randn(shape), 2), tolerance=0)
    assert aten.permute.default in [each.target for each in calls]


def test_all_rewrites_are_tested() -> None:
    tested = {
        *(getattr(aten, name).default for name in ("convolution", "avg_pool2d", "max_pool2d_with_indices")),
        *(getattr(aten, name).default for name in ("_adaptive_avg_pool2d", "adaptive_max_pool2d")),
        *(
            getattr(getattr(aten, f"{name}{spatial}d"), overload)
            for name in ("upsample_nearest", "_upsample_nearest_exact")
            for spatial in (1, 2)
            for overload in ("default", "vec")
        ),
        *(aten.upsample_linear1d.default, aten.upsample_linear1d.vec),
        *(aten.upsample_bilinear2d.default, aten.upsample_bilinear2d.vec),
        aten.pixel_shuffle.default,
    }
    assert set(TABLE) == {*tested, NHWC.max_pool2d.default}  # see `large_pools_test`
