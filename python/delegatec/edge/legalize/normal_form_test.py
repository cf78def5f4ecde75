# SPDX-License-Identifier: Apache-2.0
"""Decomposition: one trace a signature, right metadata, no loops, and nothing fixed that is dynamic."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

from delegatec.diagnostics import DelegatecError
from delegatec.edge import KERNEL_COMPOSITES, print_program, to_edge
from delegatec.edge.out_variants import out_variant
from delegatec.edge.quantization.operators import quantized
from delegatec.edge.testing import assert_computes, called, edge, export

aten = torch.ops.aten
module: Any = importlib.import_module("delegatec.edge.legalize.normal_form")
templates: Any = importlib.import_module("delegatec.edge.legalize.templates")
X = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
ROWS = Dim("rows", min=2, max=8)
GRU_CELL, LSTM_CELL = (
    torch.nn.GRUCell(4, 5).requires_grad_(False),
    torch.nn.LSTMCell(4, 4).requires_grad_(False),
)


@pytest.fixture(name="traced")
def _traced(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The traced operators, one entry per trace."""
    traced: list[Any] = []
    trace = templates._trace

    def record(builder: Any, node: Any, function: Any) -> Any:
        traced.append(node.target)
        return trace(builder, node, function)

    monkeypatch.setattr(templates, "_trace", record)
    return traced


def test_one_trace_for_equal_signatures(traced: list[Any]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        for _ in range(5):
            x = F.mish(x)
        return x

    program = edge(function, X)
    assert traced.count(aten.mish.default) == 1
    assert_computes(program, function(X), X)


@pytest.mark.parametrize(
    ("function", "x", "operator"),
    [
        (lambda x: F.rrelu(x), X - 2.5, aten.leaky_relu.default),
        (lambda x: F.rrelu(x, 0.25, 0.5), X - 2.5, aten.leaky_relu.default),
        (lambda x: torch.addcmul(x, x, x, value=2.7), torch.arange(4), None),
        (
            lambda x: F.interpolate(x[None], (2, 7), mode="bicubic", antialias=True),
            X,
            aten.index_select.default,
        ),
        (lambda x: torch.addcmul(x, x, x, value=-0.5), torch.arange(4), None),
    ],
)
def test_operators_that_torch_decomposes_wrongly(
    function: Callable[..., torch.Tensor], x: torch.Tensor, operator: Any
) -> None:
    program = edge(function, x)
    assert_computes(program, function(x), x)
    assert operator is None or operator in called(program)


@pytest.mark.parametrize("function", [torch.hypot, torch.lerp, torch.copysign, torch.logaddexp])
def test_operands_of_one_template_are_distinguished(function: Callable[..., torch.Tensor]) -> None:
    def call(*tensors: torch.Tensor) -> torch.Tensor:
        return function(*(F.mish(x) for x in tensors))

    tensors = tuple(X[0] - n for n in range(3 if function is torch.lerp else 2))
    assert_computes(edge(call, *tensors), call(*tensors), *tensors)


def test_another_trace_for_another_signature(traced: list[Any]) -> None:
    def function(x: torch.Tensor) -> Any:
        return F.mish(x), F.mish(x[0]), F.mish(x.half()), F.softplus(x), F.softplus(x, 2.0), F.softplus(x, 2)

    program = edge(function, X)
    assert traced.count(aten.mish.default) == 3
    assert traced.count(aten.softplus.default) == 3
    assert_computes(program, function(X), X, atol=1e-2)


def test_the_same_operand_twice_and_two_operands_share_a_trace(traced: list[Any]) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.logaddexp(x, y), torch.logaddexp(x, x), torch.logaddexp(y, x)

    program = edge(function, X, X.flip(0))
    assert traced.count(aten.logaddexp.default) == 1
    assert_computes(program, function(X, X.flip(0)), X, X.flip(0))


def test_one_trace_for_symbolic_sizes(traced: list[Any]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.mish(F.mish(x)) * x.shape[0]

    program = edge(function, X, dynamic_shapes=({0: ROWS},))
    assert traced.count(aten.mish.default) == 1
    for rows in (2, 5, 8):
        x = torch.ones(rows, 3, 4)
        assert_computes(program, function(x), x)


def test_metadata_of_emitted_nodes_is_correct_and_has_the_source() -> None:
    program = edge(lambda x: F.mish(x.permute(2, 0, 1)).flatten().softmax(0), X)
    for node in program.graph.find_nodes(op="call_function", target=aten.exp.default):
        assert node.meta["debug_handle"] >= 1
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    assert all(node.meta["source"].function in ("<lambda>", "forward") for node in calls)
    assert all(node.meta["val"].is_contiguous() for node in calls)
    mish = {node.meta["debug_handle"] for node in calls[1:4]}
    assert len(mish) == 1, "nodes emitted for one node share its handle"


def test_preserved_operators_are_not_decomposed() -> None:
    preserved = [aten.mish.default, aten.linear.default, aten.scaled_dot_product_attention.default]

    def function(x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(F.mish(x), x, F.linear(x, x[0]) @ x)

    assert set(preserved) <= set(called(edge(function, X, preserve=preserved)))
    assert not set(preserved) & set(called(edge(function, X)))


def _normalized(x: torch.Tensor) -> torch.Tensor:
    return F.instance_norm(x) + F.batch_norm(x, None, None, training=True)


def test_composites_with_a_better_kernel_are_kept_on_request() -> None:
    def function(x: torch.Tensor) -> Any:
        x = F.pixel_unshuffle(F.group_norm(F.linear(x, x[0, 0]), 2).roll(1, -1), 2)
        moments = x.var(1), x.std((0, 1)), torch.var_mean(x, 1)
        return torch.select_scatter(x, x[:, 0], 1, 2), moments, _normalized(x)

    image = torch.randn(2, 2, 4, 4)
    kept_program, parts = edge(function, image, preserve=KERNEL_COMPOSITES), edge(function, image)
    assert set(called(kept_program)) >= KERNEL_COMPOSITES
    assert not set(called(parts)) & KERNEL_COMPOSITES
    for program in (kept_program, parts):
        assert_computes(program, function(image), image, atol=1e-5)


def test_group_norm_of_a_dynamic_batch() -> None:
    images = Dim("images", min=1, max=8)
    program = edge(
        lambda x: F.group_norm(x, 2).roll(1, -1), torch.ones(3, 4, 5), dynamic_shapes=({0: images},)
    )
    assert not set(called(program)) & KERNEL_COMPOSITES
    x = torch.randn(5, 4, 5)
    assert_computes(program, F.group_norm(x, 2).roll(1, -1), x, atol=1e-5)


def test_operators_with_a_kernel_stay() -> None:
    program = edge(lambda x: (F.leaky_relu(x), F.elu(x), x.var(1), F.glu(x), F.pixel_shuffle(x[None], 1)), X)
    assert [operator for operator in called(program) if out_variant(operator) is None] == []
    assert {aten.leaky_relu.default, aten.elu.default, aten.glu.default} <= set(called(program))


@pytest.mark.parametrize(
    ("operator", "function"),
    [
        (aten.nextafter.default, lambda x: torch.nextafter(x, x)),
        (aten.igamma.default, lambda x: torch.igamma(x, x)),
    ],
)
def test_operators_that_torch_decomposes_to_prims_are_kept(
    operator: Any, function: Callable[..., Any]
) -> None:
    assert called(edge(function, X))[-1] is operator


def test_decompositions_that_write_in_place_become_functional() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.vander(x[0, 0]) + 1

    program = edge(function, X)
    assert not any(operator._schema.is_mutable for operator in called(program))
    assert_computes(program, function(X), X)


def test_a_decomposition_to_the_operator_itself_terminates() -> None:
    """Batch norm in training mode leads to native_batch_norm, which leads to itself."""
    operator = aten.native_batch_norm.default
    program = edge(
        lambda x, m, v: operator(x, None, None, m, v, False, 0.1, 1e-5), X, X[0, :, 0], X[1, :, 0].abs()
    )
    assert len(called(program)) < 20


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.mish(x),
        lambda x: F.linear(x.permute(0, 2, 1), torch.ones(5, 3)),
        lambda x: x @ x.mT,
        lambda x: F.scaled_dot_product_attention(x, x, x),
        lambda x: F.layer_norm(x, (4,)).flatten(1),
        lambda x: torch.stack([x, x * 2], 1).unbind(1),
        lambda x: GRU_CELL(x[:, 0]),
        lambda x: LSTM_CELL(x[:, 0], (x[:, 1], x[:, 2])),
    ],
)
def test_dynamic_sizes_stay_dynamic(function: Callable[..., Any]) -> None:
    program = edge(function, X, dynamic_shapes=({0: ROWS},))
    assert "f32[s" in print_program(program).splitlines()[0]
    for rows in (2, 8):
        x = torch.randn(rows, 3, 4, generator=torch.Generator().manual_seed(rows))
        assert_computes(program, function(x), x)


@pytest.mark.parametrize("least", [None, 1])
def test_parts_of_a_batch_of_one_in_a_program_that_is_read(least: int | None) -> None:
    """A program that is read does not record that the size of the example was not 1."""
    batch = Dim("batch", min=least, max=8)
    file = io.BytesIO()
    module = torch.nn.GRU(4, 5, batch_first=True).requires_grad_(False)
    torch.export.save(export(module, X, dynamic_shapes=({0: batch},)), file)
    file.seek(0)
    program = to_edge(torch.export.load(file))
    for count in (1, 8):
        x = torch.randn(count, 3, 4, generator=torch.Generator().manual_seed(count))
        assert_computes(program, module(x), x)


def test_empty_tensors_whose_size_torch_calls_negative() -> None:
    rows = Dim("rows", min=1, max=6)
    program = edge(lambda x: x[2:], torch.zeros(3, 0), dynamic_shapes=({0: rows},))
    for count in (1, 2, 5):
        x = torch.zeros(count, 0)
        assert_computes(program, x[2:], x)


def test_preserved_operators_compute_no_empty_tensors() -> None:
    """A linear layer without outputs; blocks of its quantized weight may have a size of 0."""
    weight = torch.zeros(0, 4, dtype=torch.int8)

    def function(x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, quantized.dequantize_per_tensor(weight, 0.5, 0, -128, 127, torch.int8))

    program = edge(function, X, preserve={aten.linear.default, quantized.dequantize_per_tensor.default})
    assert not called(program)  # it is a constant
    assert_computes(program, function(X), X)


def test_a_decomposition_for_one_size_only_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's own decomposition of GRU reads sizes as integers."""
    rules = {op: rule for op, rule in module.RULES.items() if op is not aten.gru.input}
    monkeypatch.setattr(module, "RULES", rules)
    exported = export(torch.nn.GRU(4, 5, batch_first=True), X, dynamic_shapes=({0: ROWS},))
    with pytest.raises(DelegatecError) as caught:
        to_edge(exported)
    (problem,) = caught.value.diagnostics
    assert problem.code == "DC205" and "aten.gru.input" in problem.message


def test_a_decomposition_that_fails_for_symbolic_sizes_is_rejected() -> None:
    with pytest.raises(DelegatecError) as caught:
        edge(lambda x: F.margin_ranking_loss(x, x, x.sign()), X, dynamic_shapes=({0: ROWS},))
    assert [problem.code for problem in caught.value.diagnostics] == ["DC205"]


def test_an_operator_without_fake_values_is_kept() -> None:
    program = edge(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127), X)
    assert called(program) == [aten.fake_quantize_per_tensor_affine_cachemask.default]


def test_a_size_that_is_specialized_after_its_use_is_a_number() -> None:
    """Groups are a constant, so that the number of channels is one, too; `x.shape[1]` was used before."""

    def function(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.conv1d(x, weight, groups=x.shape[1]) * x.numel()

    weight = torch.randn(3, 1, 2)
    program = edge(function, X, weight, dynamic_shapes=({0: ROWS, 1: torch.export.Dim.AUTO}, None))
    assert_computes(program, function(X, weight), X, weight)


def test_sizes_that_depend_on_data_are_computed() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        picked = x[x > 0]
        return picked.reshape(picked.shape[0], 1)

    program = edge(function, X)
    assert_computes(program, function(-X), -X)


def test_strides_of_a_view_are_rejected() -> None:
    with pytest.raises(DelegatecError) as caught:
        edge(lambda x: (x.mT.as_strided((2, 2), (1, 3)), x[1].as_strided((2,), (1,))), X)
    assert [problem.code for problem in caught.value.diagnostics] == ["DC205"] * 2
    program = edge(lambda x: (x + 1).as_strided((2, 3), (1, 2), 1), X)
    assert_computes(program, (X + 1).as_strided((2, 3), (1, 2), 1), X)


def test_a_linear_layer_of_one_weight_vector_is_never_kept() -> None:
    """The kernel supports a matrix only."""
    weight = torch.arange(4.0)
    x = torch.arange(24.0).view(2, 3, 4)
    program = edge(lambda x: torch.nn.functional.linear(x, weight), x, preserve={aten.linear.default})
    (call,) = program.graph.find_nodes(op="call_function", target=aten.linear.default)
    assert len(call.args[1].meta["val"].shape) == 2
    assert_computes(program, x @ weight, x)
