# SPDX-License-Identifier: Apache-2.0
"""Rows of networks that are quantized: layers, and the operators between them."""

from __future__ import annotations

from typing import Final

# With weights that are quantized without samples.
WEIGHTED: Final = (
    "F.linear({f@1+}, {W:(r(1, 3) * 4, x.shape[-1])}, {W1:(W.shape[0],)})",
    "F.linear({f@1+}, {W:(r(1, 3) * 4, x.shape[-1])})",
    "F.linear({f@2}, {W:(x.shape[-1], x.shape[-1])}, {W1:(x.shape[-1],)})",
    "({f@2+} @ {W:(x.shape[-1], r(1, 3) * 4)})",
    "F.conv1d({f@3}, {W:(8, x.shape[1], r(1, 4))}, {W1:(8,)}, padding={int:r(0, 2)})",
    "F.conv2d({f@4}, {W:(r(1, 3) * 4, x.shape[1], r(1, 4), r(1, 4))}, stride={int:r(1, 3)}, "
    "padding={int2:r(0, 2)})",
    "F.conv2d({f@4}, {W:(8, x.shape[1], 3, 3)}, {W1:(8,)}, padding=1)",
    "F.conv2d({f@4}, {W:(8, x.shape[1], 1, 1)}, {W1:(8,)})",
    "F.conv2d({f@4}, {W:(x.shape[1], 1, 3, 3)}, {W1:(x.shape[1],)}, padding=1, groups={f}.shape[1])",
    "F.conv_transpose2d({f@4}, {W:(x.shape[1], 4, 2, 2)}, {W1:(4,)}, stride=2)",
)
LAYERS: Final = (
    *WEIGHTED,
    "F.batch_norm({f@4}, {W:(x.shape[1],)}, {W1:(x.shape[1],)}.abs() + 0.5, {W2:(x.shape[1],)})",
    "F.layer_norm({f@2+}, ({f}.shape[-1],), {W:(x.shape[-1],)}, {W1:(x.shape[-1],)})",
    "F.embedding({I:x.shape[0];(r(1, 3), r(1, 5))}, {f@2})",
    "F.relu({f})",
    "F.relu6({f})",
    "F.hardswish({f})",
    "F.silu({f})",
    "F.gelu({f})",
    "F.leaky_relu({f}, 0.1)",
    "torch.sigmoid({f})",
    "torch.tanh({f})",
    "{f}.softmax(-1)",
    "({f} + {f1~})",
    "({f} - {f1~})",
    "({f} * {f1~})",
    "({f} * {num})",
    "torch.cat([{f@1+}, {f1=}], {dim})",
    "F.max_pool2d({f@4}, 2)",
    "F.avg_pool2d({f@4}, 2)",
    "F.adaptive_avg_pool2d({f@4}, 1)",
    "{f@3+}.mean({dim}, keepdim={keep})",
    "F.interpolate({f@4}, scale_factor=2, mode={one:'nearest'|'bilinear'})",
    "F.scaled_dot_product_attention({f@3+}, {f1=}, {f2=})",
    "F.pad({f@2+}, (1, 0))",
)
