# SPDX-License-Identifier: Apache-2.0
"""Every operator with a visitor in the peer is supported by ours, in a call that the peer supports."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
import torch.ao.quantization.fx._decomposed
from torch.nn import functional as F  # noqa: N812

from delegatec.delegation.delegates.call_delegate import call_delegate
from tests.peer.differential import compile_as_product
from tests.peer.lowering import REGISTRY, peer_edge
from tests.peer.suite import Call

aten = torch.ops.aten
quantized = torch.ops.quantized_decomposed

X: Final = torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(0)) + 0.25
Y: Final = X.flip(0) + 0.5
N: Final = torch.arange(24).view(2, 3, 4)
IMAGE: Final = X.new_ones(1, 4, 6, 6) * torch.arange(6.0)
INDEX: Final = torch.tensor([1, 0])
TOKENS: Final = (torch.rand(3, 1) + 0.5, torch.zeros(3, 1, dtype=torch.int64))
BYTES: Final = torch.randint(-8, 8, (4, 64), dtype=torch.int8)
GROUPS: Final = (torch.rand(4, 2), torch.zeros(4, 2))

# Names of the registry that no program has when the peer looks for delegates: its own conversion takes others
# for them, and two come back when a delegate is compiled.
_NEVER_REACHED: Final = frozenset(
    (
        "aten._to_copy.default",
        "aten.clone.default",
        "aten.empty.memory_format",
        "aten.floor_divide.default",
        "aten.pixel_shuffle.default",
        "aten.scalar_tensor.default",
    )
)


def _by_token(a: torch.Tensor) -> torch.Tensor:
    """Quantized per token, and back."""
    scales, zeros = quantized.choose_qparams_per_token_asymmetric(a, torch.int8)
    values = quantized.quantize_per_token(a, scales, zeros, -128, 127, torch.int8)
    return quantized.dequantize_per_token(  # type: ignore[no-any-return]
        values, scales, zeros, -128, 127, torch.int8, torch.float32
    )


_CALLS: Final[dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "aten._log_softmax.default": (lambda a: a.log_softmax(-1), (X,)),
    "aten._native_batch_norm_legit_no_training.default": (
        lambda a, w, b, m, v: F.batch_norm(a, m, v, w, b),
        (IMAGE, *(torch.rand(4) + 0.5 for _ in range(4))),
    ),
    "aten._softmax.default": (lambda a: a.softmax(-1), (X,)),
    "aten._to_copy.default": (lambda a: a.to(torch.float16) * 2, (X,)),
    "aten.addmm.default": (torch.addmm, (X[0, 0], X[0], torch.ones(4, 4))),
    "aten.arange.start_step": (lambda a: a + torch.arange(0, 4, 1), (X,)),
    "aten.avg_pool2d.default": (lambda a: F.avg_pool2d(a, 2, 2), (IMAGE,)),
    "aten.bmm.default": (torch.bmm, (X, Y.transpose(1, 2).contiguous())),
    "aten.cat.default": (lambda a, b: torch.cat([a.exp(), b]), (X, Y)),
    "aten.clamp.default": (lambda a: a.clamp(0.5, 0.75), (X,)),
    "aten.clone.default": (lambda a: a.exp().clone(), (X,)),
    "aten.constant_pad_nd.default": (lambda a: F.pad(a.exp(), (1, 2)), (X,)),
    "aten.convolution.default": (F.conv2d, (IMAGE, torch.rand(2, 4, 3, 3))),
    "aten.div.Tensor_mode": (lambda a, b: torch.div(a, b, rounding_mode="floor"), (X, Y)),
    "aten.embedding.default": (lambda w, i: F.embedding(i, w), (X[0], INDEX)),
    "aten.empty.memory_format": (lambda a: a.exp() + torch.empty(4), (X,)),
    "aten.expand_copy.default": (lambda a: a.exp()[:, :1].expand(2, 3, 4), (X,)),
    "aten.full.default": (lambda a: a + torch.full((4,), 2.0), (X,)),
    "aten.full_like.default": (lambda a: a + torch.full_like(a, 2.0), (X,)),
    "aten.gelu.default": (F.gelu, (X,)),
    "aten.hardtanh.default": (F.hardtanh, (X,)),
    "aten.index.Tensor": (lambda a, i: a[i] * 2.0, (X, INDEX)),
    "aten.index_put.default": (
        lambda a, i, v: a.exp().index_put((i,), v), (X, INDEX[:1], X[:1] * 2)
    ),
    "aten.index_select.default": (lambda a, i: a.index_select(1, i) * 2.0, (X, INDEX)),
    "aten.leaky_relu.default": (F.leaky_relu, (X,)),
    "aten.logical_not.default": (torch.logical_not, (N > 9,)),
    "aten.max_pool2d_with_indices.default": (lambda a: F.max_pool2d(a, 2, 2), (IMAGE,)),
    "aten.mean.dim": (lambda a: a.mean(1), (X,)),
    "aten.minimum.default": (torch.minimum, (X, Y)),
    "aten.mm.default": (torch.mm, (X[0], torch.ones(4, 2))),
    "aten.native_layer_norm.default": (
        lambda a, w, b: F.layer_norm(a, (4,), w, b), (X, torch.rand(4), torch.rand(4))
    ),
    "aten.permute_copy.default": (lambda a: a.exp().permute(2, 0, 1), (X,)),
    "aten.pixel_shuffle.default": (lambda a: F.pixel_shuffle(a.exp(), 2), (IMAGE,)),
    "aten.scalar_tensor.default": (lambda a: torch.where(a > 1, a, 0.0), (X,)),
    "aten.select_copy.int": (lambda a: a.exp()[:, 1], (X,)),
    "aten.slice_copy.Tensor": (lambda a: a.exp()[:, 1:], (X,)),
    "aten.slice_scatter.default": (lambda a, b: a.exp().slice_scatter(b, 1, 1, 2), (X, X[:, :1])),
    "aten.split_with_sizes_copy.default": (lambda a: a.exp().split([1, 2], 1), (X,)),
    "aten.squeeze_copy.dims": (lambda a: a[:1].exp().squeeze((0,)), (X,)),
    "aten.unsqueeze_copy.default": (lambda a: a.exp().unsqueeze(0), (X,)),
    "aten.view_copy.default": (lambda a: a.exp().view(6, 4), (X,)),
    "aten.where.self": (lambda a, b: torch.where(a > b, a, b), (X, Y)),
    "dim_order_ops._empty_dim_order.default": (lambda a: a.exp() + torch.empty(4), (X,)),
    "dim_order_ops._to_dim_order_copy.default": (lambda a: a.to(torch.float16) * 2, (X,)),
    "getitem": (lambda a: a.exp().split([1, 2], 1)[1], (X,)),
    "quantized_decomposed.choose_qparams_per_token_asymmetric.default": (_by_token, (X[0],)),
    "quantized_decomposed.dequantize_per_channel_group.default": (
        lambda x, w, s, z: F.linear(
            x, quantized.dequantize_per_channel_group(w, s, z, -8, 7, torch.int8, 32, torch.float32)
        ),
        (torch.rand(2, 64), BYTES, *GROUPS),
    ),
    "quantized_decomposed.dequantize_per_token.default": (
        lambda q, s, z: quantized.dequantize_per_token(q, s, z, -128, 127, torch.int8, torch.float32) * 2,
        (N[0, :3].to(torch.int8), *TOKENS),
    ),
    "quantized_decomposed.quantize_per_token.default": (
        lambda a, s, z: quantized.dequantize_per_token(
            quantized.quantize_per_token(a, s, z, -128, 127, torch.int8),
            s, z, -128, 127, torch.int8, torch.float32,
        ),
        (X[0], *TOKENS),
    ),
}  # fmt: skip


def _call(name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Returns a call of an operator in the registry: from the table, or elementwise by its name."""
    if name in _CALLS:
        return _CALLS[name]
    packet, overload = name.removeprefix("aten.").split(".")
    function = getattr(getattr(aten, packet), overload)
    first, second = (N, N.flip(0)) if packet.startswith("bitwise_") else (X, Y)
    if overload in ("Scalar", "Tensor_Scalar"):
        return lambda a: function(a, 2), (first,)
    operands = [a for a in function._schema.arguments if str(a.type) == "Tensor"]
    return function, (first, second)[: len(operands)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_ours_supports_the_peers_operators(name: str) -> None:
    function, args = _call(name)
    exported = torch.export.export(Call(function).eval(), args)
    reached = {getattr(node.target, "__name__", "") for node in _peer_nodes(exported)}
    assert (name in reached) == (name not in _NEVER_REACHED)
    program = compile_as_product(torch.export.export(Call(function).eval(), args), "fp32").program
    calls = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert [str(target) for target in calls if target not in (call_delegate, operator.getitem)] == []
    assert call_delegate in calls


def _peer_nodes(exported: torch.export.ExportedProgram) -> list[torch.fx.Node]:
    program = peer_edge(exported).exported_program()
    return [node for node in program.graph.nodes if node.op == "call_function"]


def test_the_registry_has_as_many_operators_as_are_known() -> None:
    assert len(REGISTRY) == 113
    assert set(_CALLS) | _NEVER_REACHED <= set(REGISTRY)
