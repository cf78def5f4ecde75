# SPDX-License-Identifier: Apache-2.0
"""Operators of the runtime without a counterpart in ATen, as targets of calls in private programs."""

from __future__ import annotations

from typing import Any, Final

import torch

_LAYER: Final = (
    "Tensor x, float x_scale, int x_zero, Tensor weight, Tensor sums, Tensor scales, float scale, int zero, "
    "Tensor? bias"
)
_WINDOW: Final = "int[] kernel, int[] stride, int[] padding, int[] dilation"
_CONVOLUTIONS: Final = ("q8ta_conv2d", "q8ta_conv2d_pw", "q8ta_conv2d_dw")
_SCHEMAS: Final = (
    "load_state(Tensor initial) -> Tensor",
    "store_state(Tensor value, Tensor state) -> Tensor",
    "group_norm(Tensor x, Tensor weight, Tensor bias, SymInt batch, int channels, SymInt image, int groups, "
    "float epsilon) -> (Tensor, Tensor, Tensor)",
    "linear_q8csw(Tensor x, Tensor weight, Tensor scales, Tensor? bias) -> Tensor",
    "linear_q4gsw(Tensor x, Tensor weight, Tensor scales, int group_size, Tensor? bias) -> Tensor",
    *(f"{name}({_LAYER}, {_WINDOW}, int groups, str activation) -> Tensor" for name in _CONVOLUTIONS),
    f"q8ta_conv2d_transposed({_LAYER}, int[] kernel, int[] stride, int[] padding, int[] output_padding, "
    "int[] dilation, int groups, str activation) -> Tensor",
    *(f"{name}({_LAYER}, str activation) -> Tensor" for name in ("q8ta_linear", "q8ta_linear_gemv")),
    "q8ta_add(Tensor x, Tensor y, float x_scale, int x_zero, float y_scale, int y_zero, float scale, "
    "int zero, float alpha) -> Tensor",
    "q8ta_relu(Tensor x, float x_scale, int x_zero, float scale, int zero) -> Tensor",
    "apply_rotary_emb_hf(Tensor q, Tensor k, Tensor cosines, Tensor sines, int start) -> (Tensor, Tensor)",
    "embedding_q4gsw(Tensor weight, Tensor scales, int group_size, Tensor indices, bool is_linear) -> Tensor",
)

_LIBRARY: Final[Any] = torch.library.Library("delegatec_vulkan", "FRAGMENT")  # type: ignore[no-untyped-call]
for _schema in _SCHEMAS:
    _LIBRARY.define(_schema)

RUNTIME: Final = torch.ops.delegatec_vulkan
