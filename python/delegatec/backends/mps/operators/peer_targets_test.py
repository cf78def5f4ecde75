# SPDX-License-Identifier: Apache-2.0
"""Every target with a visitor in upstream's compiler is supported, by a row, a rewrite or otherwise.

Source: the targets that executorch.backends.apple.mps of ExecuTorch 1.4.1 registers.
"""

from __future__ import annotations

import pytest

from delegatec.backends.mps.operators.rewrites import REWRITES
from delegatec.backends.mps.operators.table import TABLE
from delegatec.edge.legalize.rules import FUNCTIONS
from delegatec.edge.quantization.operators import DEQUANTIZE_BLOCKS

_DEFAULTS = """
_log_softmax _native_batch_norm_legit_no_training _softmax _to_copy abs acos acosh addmm asin asinh atan atanh
avg_pool2d bitwise_not bmm cat ceil clamp constant_pad_nd convolution cos cosh embedding erf exp exp2
expand_copy floor floor_divide full full_like gelu hardtanh index_put index_select isinf isnan leaky_relu log
log10 log2 logical_not max_pool2d_with_indices minimum mm native_layer_norm neg permute_copy pixel_shuffle
reciprocal relu round rsqrt scalar_tensor sigmoid sign sin sinh slice_scatter split_with_sizes_copy sqrt tan
tanh unsqueeze_copy view_copy
"""
_BOTH = "add bitwise_and bitwise_or bitwise_xor eq fmod ge gt le lt mul ne remainder sub"
_OTHERS = """
arange.start_step div.Tensor div.Tensor_mode empty.memory_format index.Tensor mean.dim pow.Tensor_Scalar
pow.Tensor_Tensor select_copy.int slice_copy.Tensor squeeze_copy.dims where.self
"""
ATEN = [
    *(f"{name}.default" for name in _DEFAULTS.split()),
    *(f"{name}.{overload}" for name in _BOTH.split() for overload in ("Scalar", "Tensor")),
    *_OTHERS.split(),
]
DECOMPOSED = [
    "quantized_decomposed.choose_qparams_per_token_asymmetric.default",
    "quantized_decomposed.dequantize_per_token.default",
    "quantized_decomposed.quantize_per_token.default",
]
GROUPED = "quantized_decomposed.dequantize_per_channel_group.default"
# The edge program does not have dim orders: their operators are `empty` and `_to_copy`. `getitem` belongs to
# the group of its operand. A clone is an alias of its operand.
NOT_IN_THE_PROGRAM = [
    "aten.clone.default",
    "dim_order_ops._empty_dim_order.default",
    "dim_order_ops._to_dim_order_copy.default",
    "getitem",
]


def test_the_list_is_complete() -> None:
    assert len({*ATEN, *DECOMPOSED, GROUPED, *NOT_IN_THE_PROGRAM}) == 113


@pytest.mark.parametrize("name", ATEN)
def test_a_row_or_a_rewrite_supports_it(name: str) -> None:
    """Copies there are views here: the edge program does not have storages."""
    packet, overload = name.split(".")
    viewed = packet if packet == "_to_copy" else packet.removesuffix("_copy")
    assert f"aten.{viewed}.{overload}" in {str(target) for target in (*TABLE.rows, *REWRITES)}


def test_a_row_supports_weights_in_groups() -> None:
    """Edge programs dequantize channels and groups by one operator."""
    assert DEQUANTIZE_BLOCKS in TABLE.rows


@pytest.mark.parametrize("name", DECOMPOSED)
def test_the_edge_program_has_its_parts(name: str) -> None:
    assert name in {str(target) for target in FUNCTIONS}
